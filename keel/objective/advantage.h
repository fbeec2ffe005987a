#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel {

/// R - mean of the group, without a standard deviation (the papers' choice).
std::vector<double> group_mean_advantages(std::span<const double> rewards, std::span<const int64_t> groups);

/// GRPO: (R - mean) / (std + eps), std with n - 1.
std::vector<double> grpo_advantages(std::span<const double> rewards, std::span<const int64_t> groups,
                                    double eps = 1e-6);

/// By its configuration word: "group_mean" or "grpo". In both a group of equal rewards is exactly 0.
std::vector<double> advantages(const std::string& kind, std::span<const double> rewards,
                               std::span<const int64_t> groups);

}  // namespace keel
