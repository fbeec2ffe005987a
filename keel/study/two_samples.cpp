#include "keel/study/two_samples.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "keel/evaluation/intervals.h"

namespace keel {
namespace {

/// Computes the regularised incomplete beta function by its continued fraction (Lentz's method), for x below
/// (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kTolerance = 1e-15;
  const auto non_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / non_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < 1000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 / non_zero(1 + term * d);
      c = non_zero(1 + term / c);
      change = c * d;
      fraction *= change;
    }
    if (std::abs(change - 1) < kTolerance) break;
  }
  return fraction *
         std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) / a;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  return x < (a + 1) / (a + b + 2) ? beta_fraction(a, b, x) : 1 - beta_fraction(b, a, 1 - x);
}

double log_choose(int64_t n, int64_t k) {
  const auto log_factorial = [](int64_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

}  // namespace

double welch_test(std::span<const double> one, std::span<const double> other) {
  const auto count_of = [](std::span<const double> values) { return static_cast<double>(values.size()); };
  const Moments a = moments_of(one), b = moments_of(other);
  // Ratios to the standard error and halves avoid overflow and underflow of squares and of the difference.
  const double error_a = a.deviation / 2 / std::sqrt(count_of(one)),
               error_b = b.deviation / 2 / std::sqrt(count_of(other)), error = std::hypot(error_a, error_b);
  if (error == 0) return a.mean == b.mean ? 1 : 0;
  const double t = (a.mean / 2 - b.mean / 2) / error;
  const double degrees_of_freedom =
      1 / (std::pow(error_a / error, 4) / (count_of(one) - 1) + std::pow(error_b / error, 4) / (count_of(other) - 1));
  return incomplete_beta(degrees_of_freedom / 2, 0.5, degrees_of_freedom / (degrees_of_freedom + t * t));
}

std::optional<double> paired_test(std::span<const double> differences) {
  constexpr double kRounding = 1e-9;  // relative to the mean
  const Moments moments = moments_of(differences);
  if (moments.deviation == 0 && moments.mean == 0) return 1;
  if (moments.deviation <= kRounding * std::abs(moments.mean)) return std::nullopt;
  const auto count = static_cast<double>(differences.size());
  const double t = moments.mean / moments.deviation * std::sqrt(count);
  return incomplete_beta((count - 1) / 2, 0.5, (count - 1) / (count - 1 + t * t));
}

double fisher_test(int64_t successes, int64_t count, int64_t other_successes, int64_t other_count) {
  const int64_t total = successes + other_successes;
  const auto probability = [&](int64_t k) {
    return std::exp(log_choose(count, k) + log_choose(other_count, total - k) - log_choose(count + other_count, total));
  };
  const double observed = probability(successes);
  double sum = 0;
  for (int64_t k = std::max<int64_t>(0, total - other_count); k <= std::min(count, total); ++k)
    if (const double p = probability(k); p <= observed * (1 + 1e-7)) sum += p;
  return std::min(1.0, sum);
}

double mcnemar_test(int64_t only_one, int64_t only_other) {
  const int64_t count = only_one + only_other;
  double sum = 0;  // of a tail of the binomial distribution with probability 1/2
  for (int64_t k = 0; k <= std::min(only_one, only_other); ++k)
    sum += std::exp(log_choose(count, k) - static_cast<double>(count) * std::numbers::ln2);
  return std::min(1.0, 2 * sum);
}

std::vector<double> holm_corrected(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return p_values[i]; });
  std::vector<double> corrected(p_values.size());
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, std::min(1.0, p_values[order[rank]] * static_cast<double>(order.size() - rank)));
    corrected[order[rank]] = largest;
  }
  return corrected;
}

}  // namespace keel
