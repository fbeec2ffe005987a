#include "keel/record/report/health.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace keel {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr size_t kInARow = 3;
constexpr double kDeviations = 6;
constexpr double kPerDeviation = 1.4826;  // median absolute deviations of a normal distribution in its standard one
constexpr size_t kMeanOf = 5;             // steps of the reward's moving mean, as in a study's collapses

/// A metric that tells a run's state. What is bad of it is above its band, or below.
struct Watched {
  const char* key;
  const char* name;
  bool above, below;
  double least;  // half the band's width at least: what changes by less is of no interest
  double floor;  // share of the median below which it must fall; 0: by the band
};

constexpr std::array<Watched, 10> kWatched{{
    {"policy/entropy", "Entropy", true, true, 0, 0.1},
    {"policy/kl_behavior", "KL to the behavior policy", true, false, 0.001, 0},
    {"trust_region/masked", "Blocked tokens", true, false, 0.05, 0},
    {"trust_region/divergence_mean", "Divergence, mean", true, false, 0.001, 0},
    {"trust_region/bad_updates", "Updates that spoil training", true, false, 0.01, 0},
    {"mismatch/abs_prob_mean", "Mismatch |π − μ|, mean", true, false, 0.001, 0},
    {"ratio/max", "Largest ratio π/μ", true, false, 10, 0},
    {"optimizer/grad_norm", "Gradient norm", true, false, 0, 0},
    {"completion/length_mean", "Completion length", true, true, 2, 0},
    {"completion/truncated", "Truncated completions", true, false, 0.1, 0},
}};

double median_of(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(half), values.end());
  const double upper = values[half];
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + static_cast<long>(half))) / 2;
}

struct Spread {
  double median = 0, deviation = 0;
};

Spread spread_of(const std::vector<double>& values) {
  const double median = median_of(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::fabs(value - median));
  return {median, kPerDeviation * median_of(distances)};
}

std::vector<ChartPoint> known_points(const RunData& run, const char* key) {
  std::vector<ChartPoint> points = metric_curve(run, "rl", key);
  std::erase_if(points, [](const ChartPoint& point) { return !drawable(point.y); });
  return points;
}

std::vector<double> first_values(const std::vector<ChartPoint>& points, size_t count) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(points[i].y);
  return values;
}

/// Notes the first of several points in a row that are outside of the band that holds for each.
template <class BandOf>
void look_for_leave(BandCheck& check, const std::vector<ChartPoint>& points, size_t from, const BandOf& band_of) {
  size_t in_a_row = 0;
  bool last_outside = false;
  for (size_t i = from; i < points.size(); ++i) {
    const auto [low, high] = band_of(i);
    last_outside = points[i].y < low || points[i].y > high;
    in_a_row = last_outside ? in_a_row + 1 : 0;
    if (in_a_row != kInARow || check.left) continue;
    const ChartPoint& first = points[i + 1 - kInARow];
    const auto [low_there, high_there] = band_of(i + 1 - kInARow);
    check.left = BandCheck::Leave{static_cast<int64_t>(first.x), first.y, first.y > high_there, low_there, high_there};
  }
  if (check.left) check.left->came_back = !last_outside;
}

std::optional<BandCheck> check_of(const RunData& run, const Watched& watched, size_t first_part) {
  const std::vector<ChartPoint> points = known_points(run, watched.key);
  if (points.size() < static_cast<size_t>(kFewestStepsForHealth)) return std::nullopt;
  first_part = std::min(first_part, points.size() / 2);
  const Spread spread = spread_of(first_values(points, first_part));
  const double half = std::max({kDeviations * spread.deviation, std::fabs(spread.median) / 2, watched.least});
  BandCheck check{watched.key, watched.name, -kInfinite, kInfinite};
  if (watched.above) check.high = spread.median + half;
  if (watched.below) check.low = watched.floor > 0 ? spread.median * watched.floor : spread.median - half;
  look_for_leave(check, points, first_part, [&](size_t) { return std::pair(check.low, check.high); });
  return check;
}

/// The reward is to rise, so that its band does: from half of its best mean of five steps so far on.
std::optional<BandCheck> reward_check(const RunData& run, size_t first_part) {
  std::vector<ChartPoint> points = known_points(run, "reward/mean");
  if (points.size() < static_cast<size_t>(kFewestStepsForHealth)) return std::nullopt;
  first_part = std::min(first_part, points.size() / 2);
  const double noise = kDeviations / 2 * spread_of(first_values(points, first_part)).deviation;
  std::vector<double> lows;
  double sum = 0, best = -kInfinite;
  for (size_t i = 0; i < points.size(); ++i) {
    lows.push_back(best == -kInfinite ? -kInfinite : best - std::max(std::fabs(best) / 2, noise));
    sum += points[i].y - (i >= kMeanOf ? points[i - kMeanOf].y : 0);
    if (i + 1 >= kMeanOf) best = std::max(best, sum / kMeanOf);
  }
  BandCheck check{"reward/mean", "Reward", lows.back(), kInfinite};
  look_for_leave(check, points, first_part, [&](size_t i) { return std::pair(lows[i], kInfinite); });
  return check;
}

}  // namespace

Health check_health(const RunData& run) {
  Health health;
  health.steps = std::ranges::count(run.metrics, "rl", &MetricRow::phase);
  if (health.steps < kFewestStepsForHealth) return health;
  health.first_part = std::clamp<int64_t>(health.steps / 5, 10, 50);
  const auto part = static_cast<size_t>(health.first_part);
  if (auto check = reward_check(run, part)) health.checks.push_back(std::move(*check));
  for (const Watched& watched : kWatched)
    if (auto check = check_of(run, watched, part)) health.checks.push_back(std::move(*check));
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::ranges::stable_sort(health.checks, {},
                           [](const BandCheck& check) { return check.left ? check.left->step : kNever; });
  return health;
}

}  // namespace keel
