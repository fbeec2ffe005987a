#include "keel/record/report/health.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace keel {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr size_t kConsecutive = 3;
constexpr double kDeviations = 6;
constexpr double kMadToSigma = 1.4826;  // standard deviation / median absolute deviation of a normal distribution
constexpr size_t kRewardWindow = 5;     // steps of the reward's moving mean

/// A monitored metric. Values above (or below) its band are bad.
struct WatchedMetric {
  const char* key;
  const char* name;
  bool above, below;
  double min_half_width;   // of the band; smaller changes are ignored
  double median_fraction;  // the low edge as a fraction of the median; 0: symmetric to the high edge
};

constexpr std::array<WatchedMetric, 10> kWatched{{
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

double compute_median(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(half), values.end());
  const double upper = values[half];
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + static_cast<long>(half))) / 2;
}

struct Spread {
  double median = 0, deviation = 0;
};

Spread compute_spread(const std::vector<double>& values) {
  const double median = compute_median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::fabs(value - median));
  return {median, kMadToSigma * compute_median(distances)};
}

/// The standard deviation of noise around a level that may change: from the median absolute difference of consecutive
/// values, to which a single fall contributes only one.
double noise_deviation(const std::vector<double>& values) {
  std::vector<double> differences;
  for (size_t i = 1; i < values.size(); ++i) differences.push_back(std::fabs(values[i] - values[i - 1]));
  return kMadToSigma / std::sqrt(2.0) * compute_median(differences);
}

std::vector<ChartPoint> finite_points(const RunData& run, const char* key) {
  std::vector<ChartPoint> points = metric_curve(run, "rl", key);
  std::erase_if(points, [](const ChartPoint& point) { return !is_plottable(point.y); });
  return points;
}

std::vector<double> first_values(const std::vector<ChartPoint>& points, size_t count) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(points[i].y);
  return values;
}

/// Finds the first of kConsecutive points outside of their bands.
template <class BandOf>
void find_departure(BandCheck& check, const std::vector<ChartPoint>& points, size_t from, const BandOf& band_of) {
  size_t consecutive = 0;
  bool last_outside = false;
  for (size_t i = from; i < points.size(); ++i) {
    const auto [low, high] = band_of(i);
    last_outside = points[i].y < low || points[i].y > high;
    consecutive = last_outside ? consecutive + 1 : 0;
    if (consecutive != kConsecutive || check.departure) continue;
    const ChartPoint& first = points[i + 1 - kConsecutive];
    const auto [first_low, first_high] = band_of(i + 1 - kConsecutive);
    check.departure =
        BandCheck::Departure{static_cast<int64_t>(first.x), first.y, first.y > first_high, first_low, first_high};
  }
  if (check.departure) check.departure->recovered = !last_outside;
}

std::optional<BandCheck> check_metric(const RunData& run, const WatchedMetric& watched, size_t baseline_steps) {
  const std::vector<ChartPoint> points = finite_points(run, watched.key);
  if (points.size() < static_cast<size_t>(kMinStepsForHealth)) return std::nullopt;
  baseline_steps = std::min(baseline_steps, points.size() / 2);
  const Spread spread = compute_spread(first_values(points, baseline_steps));
  const double half_width =
      std::max({kDeviations * spread.deviation, std::fabs(spread.median) / 2, watched.min_half_width});
  BandCheck check{watched.key, watched.name, -kInfinite, kInfinite};
  if (watched.above) check.high = spread.median + half_width;
  if (watched.below)
    check.low = watched.median_fraction > 0 ? spread.median * watched.median_fraction : spread.median - half_width;
  find_departure(check, points, baseline_steps, [&](size_t) { return std::pair(check.low, check.high); });
  return check;
}

/// Checks the reward from the sixth step on, because many collapses are early. Its band has only a low edge, half of
/// the best mean of five steps so far.
std::optional<BandCheck> check_reward(const RunData& run, size_t baseline_steps) {
  std::vector<ChartPoint> points = finite_points(run, "reward/mean");
  if (points.size() < static_cast<size_t>(kMinStepsForHealth)) return std::nullopt;
  baseline_steps = std::min(baseline_steps, points.size() / 2);
  const double noise = kDeviations / 2 * noise_deviation(first_values(points, baseline_steps));
  std::vector<double> lows;
  double sum = 0, best = -kInfinite;
  for (size_t i = 0; i < points.size(); ++i) {
    lows.push_back(best == -kInfinite ? -kInfinite : best - std::max(std::fabs(best) / 2, noise));
    sum += points[i].y - (i >= kRewardWindow ? points[i - kRewardWindow].y : 0);
    if (i + 1 >= kRewardWindow) best = std::max(best, sum / kRewardWindow);
  }
  BandCheck check{"reward/mean", "Reward", lows.back(), kInfinite};
  find_departure(check, points, kRewardWindow, [&](size_t i) { return std::pair(lows[i], kInfinite); });
  return check;
}

/// Finds the first evaluation whose interval is below that of an earlier one: of the one before, or else of the best.
/// Compares only evaluations of the same rows and reward. Equal rewards have no interval, only their mean.
std::optional<EvaluationFall> find_evaluation_fall(const RunData& run) {
  if (!run.changes.empty()) return std::nullopt;
  std::vector<EvalPoint> evals = summarize(run).evals;
  size_t best = 0;
  for (size_t i = 0; i < evals.size(); ++i) {
    EvalPoint& after = evals[i];
    if (!(after.low < after.high)) after.low = after.high = after.mean;
    for (const size_t earlier : {i == 0 ? 0 : i - 1, best}) {
      const EvalPoint& before = evals[earlier];
      const bool comparable = before.subset == after.subset && before.is_accuracy == after.is_accuracy;
      if (comparable && before.low < before.high && after.high < before.low) return EvaluationFall{before, after};
      if (!comparable) best = i;
    }
    if (after.low > evals[best].low) best = i;
  }
  return std::nullopt;
}

}  // namespace

Health check_health(const RunData& run) {
  Health health;
  health.steps = std::ranges::count(run.metrics, "rl", &MetricRow::phase);
  health.evaluation_fall = find_evaluation_fall(run);
  if (health.steps < kMinStepsForHealth) return health;
  health.baseline_steps = std::clamp<int64_t>(health.steps / 5, 10, 50);
  const auto baseline = static_cast<size_t>(health.baseline_steps);
  if (auto check = check_reward(run, baseline)) health.checks.push_back(std::move(*check));
  for (const WatchedMetric& watched : kWatched)
    if (auto check = check_metric(run, watched, baseline)) health.checks.push_back(std::move(*check));
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::ranges::stable_sort(health.checks, {},
                           [](const BandCheck& check) { return check.departure ? check.departure->step : kNever; });
  return health;
}

}  // namespace keel
