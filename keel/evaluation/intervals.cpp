#include "keel/evaluation/intervals.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace keel {
namespace {

constexpr double kNormal = 1.959963984540054;  // 97.5 % quantile of the normal distribution

/// Compares the values, because rounding can make the computed variance of equal values differ from 0.
bool all_equal(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; });
}

}  // namespace

Moments moments_of(std::span<const double> values) {
  // Scales by a power of two near the largest magnitude, which is exact and prevents overflow.
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  int exponent = 0;
  std::frexp(largest, &exponent);
  const double count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += std::ldexp(value, -exponent);
  mean /= count;
  for (const double value : values) squares += std::pow(std::ldexp(value, -exponent) - mean, 2);
  return {std::ldexp(mean, exponent), values.size() > 1 ? std::ldexp(std::sqrt(squares / (count - 1)), exponent) : 0};
}

double student_t(int64_t degrees_of_freedom) {
  constexpr std::array<double, 30> kQuantiles = {
      12.70620474, 4.30265273,  3.182446305, 2.776445105, 2.570581836, 2.446911851, 2.364624252, 2.306004135,
      2.262157163, 2.228138852, 2.20098516,  2.17881283,  2.160368656, 2.144786688, 2.131449546, 2.119905299,
      2.109815578, 2.10092204,  2.093024054, 2.085963447, 2.079613845, 2.073873068, 2.06865761,  2.063898562,
      2.059538553, 2.055529439, 2.051830516, 2.048407142, 2.045229642, 2.042272456};
  if (degrees_of_freedom <= static_cast<int64_t>(kQuantiles.size()))
    return kQuantiles[static_cast<size_t>(std::max<int64_t>(degrees_of_freedom, 1) - 1)];
  // The Cornish-Fisher expansion; its error is below 2e-6 here.
  constexpr double z = kNormal, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  const double d = static_cast<double>(degrees_of_freedom);
  return z + (z3 + z) / (4 * d) + (5 * z5 + 16 * z3 + 3 * z) / (96 * d * d) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * d * d * d);
}

Interval wilson_interval(double successes, double count) {
  if (count <= 0) return {0, 1};
  const double p = successes / count, z2 = kNormal * kNormal;
  const double centre = (p + z2 / (2 * count)) / (1 + z2 / count);
  const double half_width = kNormal / (1 + z2 / count) * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count));
  // Rounding must not move the bounds 0 and 1.
  return {successes <= 0 ? 0 : centre - half_width, successes >= count ? 1 : centre + half_width};
}

Interval fraction_interval(std::span<const double> fractions, int64_t trials) {
  if (fractions.empty()) return {0, 1};
  const double count = static_cast<double>(fractions.size());
  const auto [mean, deviation] = moments_of(fractions);
  const auto partly_solved = static_cast<double>(
      std::ranges::count_if(fractions, [](double fraction) { return fraction != 0 && fraction != 1; }));
  if (partly_solved == 0) return wilson_interval(mean * count, count);
  const double max_trials = count - partly_solved + partly_solved * static_cast<double>(trials);
  if (all_equal(fractions)) return wilson_interval(mean * max_trials, max_trials);
  const double shrink = kNormal / student_t(static_cast<int64_t>(fractions.size()) - 1);
  const double effective_trials =
      std::min(mean * (1 - mean) / (deviation * deviation / count) * shrink * shrink, max_trials);
  return wilson_interval(mean * effective_trials, effective_trials);
}

std::optional<Interval> mean_interval(std::span<const double> values) {
  if (values.empty() || all_equal(values)) return std::nullopt;
  const auto [mean, deviation] = moments_of(values);
  const double half_width =
      student_t(static_cast<int64_t>(values.size()) - 1) * (deviation / std::sqrt(static_cast<double>(values.size())));
  return Interval(mean - half_width, mean + half_width);
}

}  // namespace keel
