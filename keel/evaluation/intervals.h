#pragma once

// 95 % intervals of means over prompts. What is sampled is prompts: the samples of one prompt are no independent
// evidence about the next, however many there are.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace keel {

using Interval = std::pair<double, double>;

/// Mean and standard deviation of a sample of finite numbers, however large or small: what fits into a number in the
/// end does not overflow on the way.
struct Moments {
  double mean = 0, deviation = 0;  // the latter of one number, not of the mean; 0 where there is but one
};
Moments moments_of(std::span<const double> values);

/// Wilson's score interval of `successes` in `count` trials, neither of which need be whole.
Interval wilson_interval(double successes, double count);

/// Of the mean of shares, one for each prompt out of `trials` that are right or wrong each. Wilson's interval: where
/// every share is 0 or 1, of as many trials as there are prompts; else of as many as their spread is worth (Korn and
/// Graubard 1998, with Wilson's interval in place of Clopper and Pearson's). A prompt whose share is 0 or 1 is one
/// trial at most, since nobody knows whether its trials could have differed, and any other all of its own. Never
/// without width.
Interval share_interval(std::span<const double> shares, int64_t trials);

/// Student's interval of the mean of numbers that may be any; nothing where they say nothing of their spread: one
/// number, or all the same.
std::optional<Interval> mean_interval(std::span<const double> values);

/// The 97.5 % point of Student's t distribution.
double student_t(int64_t degrees_of_freedom);

}  // namespace keel
