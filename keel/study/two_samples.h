#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keel {

// Whether two samples may come from the same distribution.

/// The two-sided p-value of Welch's t test for equal means, each sample of at least two numbers. Samples without any
/// spread: 1 where they are equal, else 0.
double welch_test(std::span<const double> one, std::span<const double> other);

/// The two-sided p-value of Fisher's exact test: so many successes out of so many, twice.
double fisher_test(int64_t successes, int64_t count, int64_t other_successes, int64_t other_count);

/// Holm's correction: what each p-value becomes where all are looked at.
std::vector<double> holm_corrected(std::span<const double> p_values);

}  // namespace keel
