#include "keel/train/metrics/rollout_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace keel {
namespace {

std::vector<double> known_rewards(std::span<const Rollout> rollouts) {
  std::vector<double> rewards;
  for (const Rollout& rollout : rollouts)
    if (rollout.has_reward) rewards.push_back(rollout.reward);
  return rewards;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double sum_of_squared_deviations(const std::vector<double>& values) {
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return squares;
}

double variance(const std::vector<double>& values) {
  return sum_of_squared_deviations(values) / static_cast<double>(values.size());
}

double sample_deviation(const std::vector<double>& values) {
  return std::sqrt(sum_of_squared_deviations(values) / std::max(static_cast<double>(values.size()) - 1, 1.0));
}

}  // namespace

bool equal_rewards(std::span<const Rollout> group) {
  const std::vector<double> rewards = known_rewards(group);
  return std::adjacent_find(rewards.begin(), rewards.end(), std::not_equal_to<>()) == rewards.end();
}

RolloutMetrics compute_rollout_metrics(std::span<const Rollout> rollouts, int64_t group) {
  const double count = static_cast<double>(rollouts.size());
  RolloutMetrics metrics;
  if (const std::vector<double> rewards = known_rewards(rollouts); !rewards.empty()) {
    metrics.reward_mean = mean(rewards);
    metrics.reward_std = sample_deviation(rewards);
    metrics.reward_min = std::ranges::min(rewards);
    metrics.reward_max = std::ranges::max(rewards);
  }
  double equal_groups = 0, truncated = 0;
  for (size_t begin = 0; begin < rollouts.size(); begin += group) {
    const std::span<const Rollout> samples = rollouts.subspan(begin, group);
    equal_groups += equal_rewards(samples) ? 1 : 0;
    metrics.scored_prompts += std::ranges::any_of(samples, &Rollout::has_reward) ? 1 : 0;
  }
  for (const Rollout& rollout : rollouts) {
    metrics.length_max = std::max(metrics.length_max, static_cast<double>(rollout.tokens.trained_count()));
    truncated += rollout.finish == Finish::kLength ? 1 : 0;
  }
  metrics.zero_std_groups = equal_groups / (count / static_cast<double>(group));
  metrics.length_mean = static_cast<double>(token_count(rollouts)) / count;
  metrics.truncated = truncated / count;
  return metrics;
}

int64_t token_count(std::span<const Rollout> rollouts) {
  int64_t tokens = 0;
  for (const Rollout& rollout : rollouts) tokens += rollout.tokens.trained_count();
  return tokens;
}

std::optional<ValueMetrics> compute_value_metrics(std::span<const Rollout> rollouts,
                                                  const TokenAdvantages& advantages) {
  if (advantages.returns.empty()) return std::nullopt;
  std::vector<double> values, returns, errors;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    for (size_t t = 0; t < rollouts[i].tokens.values.size(); ++t) {
      values.push_back(rollouts[i].tokens.values[t]);
      returns.push_back(advantages.returns[i][t]);
      errors.push_back(returns.back() - values.back());
    }
  }
  ValueMetrics metrics{.value_mean = mean(values), .return_mean = mean(returns)};
  if (const double total = variance(returns); total > 0) metrics.explained_variance = 1 - variance(errors) / total;
  return metrics;
}

}  // namespace keel
