#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace keel {

// Tests of whether two samples come from the same distribution.

/// Returns the two-sided p-value of Welch's t-test for equal means. Each sample needs at least two values. For samples
/// without variance it is 1 if the means are equal, else 0.
double welch_test(std::span<const double> one, std::span<const double> other);

/// Returns the two-sided p-value of Student's t-test for a mean of zero. It needs at least two differences. If all are
/// equal up to rounding, the variance is unknown: returns 1 for zeros, else std::nullopt.
std::optional<double> paired_test(std::span<const double> differences);

/// Returns the two-sided p-value of Fisher's exact test for successes out of `count`, in two samples.
double fisher_test(int64_t successes, int64_t count, int64_t other_successes, int64_t other_count);

/// Returns the two-sided p-value of McNemar's exact test of paired successes: `only_one` and `only_other` count the
/// pairs in which only that one succeeded.
double mcnemar_test(int64_t only_one, int64_t only_other);

/// Returns the p-values after Holm's correction for multiple tests.
std::vector<double> holm_corrected(std::span<const double> p_values);

}  // namespace keel
