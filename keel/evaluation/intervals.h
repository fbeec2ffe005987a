#pragma once

// 95 % confidence intervals of means over prompts. The prompts are the independent sample; several completions of one
// prompt are not independent.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace keel {

using Interval = std::pair<double, double>;

/// Mean and standard deviation of finite numbers of any magnitude; intermediate results do not overflow.
struct Moments {
  double mean = 0, deviation = 0;  // deviation: of the values, not of the mean; 0 for a single value
};
Moments moments_of(std::span<const double> values);

/// Wilson's score interval of `successes` in `count` trials; both may be fractional.
Interval wilson_interval(double successes, double count);

/// The interval of the mean of fractions, one per prompt, each of `trials` correct or wrong samples. It is Wilson's
/// interval: with one trial per prompt if every fraction is 0 or 1, else with the effective number of trials from the
/// fractions' variance (Korn and Graubard 1998, with Wilson's interval instead of Clopper and Pearson's). A prompt
/// whose fraction is 0 or 1 counts as at most one trial, any other prompt as at most `trials`. The width is never 0.
Interval fraction_interval(std::span<const double> fractions, int64_t trials);

/// Student's t interval of the mean of any numbers. std::nullopt if the variance is unknown: one value, or all equal.
std::optional<Interval> mean_interval(std::span<const double> values);

/// The 97.5 % quantile of Student's t distribution.
double student_t(int64_t degrees_of_freedom);

}  // namespace keel
