#include "keel/train/metrics/rollout_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace keel {
namespace {

/// The rewards of those that were judged.
std::vector<double> rewards_of(std::span<const Rollout> rollouts) {
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

double squares_about_mean(const std::vector<double>& values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return squares;
}

double variance(const std::vector<double>& values) {
  return squares_about_mean(values) / static_cast<double>(values.size());
}

double sample_deviation(const std::vector<double>& values) {
  return std::sqrt(squares_about_mean(values) / std::max(static_cast<double>(values.size()) - 1, 1.0));
}

}  // namespace

bool equal_rewards(std::span<const Rollout> group) {
  const std::vector<double> rewards = rewards_of(group);
  return std::adjacent_find(rewards.begin(), rewards.end(), std::not_equal_to<>()) == rewards.end();
}

RolloutMetrics compute_rollout_metrics(std::span<const Rollout> rollouts, int64_t group) {
  const double count = static_cast<double>(rollouts.size());
  RolloutMetrics numbers;
  if (const std::vector<double> rewards = rewards_of(rollouts); !rewards.empty()) {
    numbers.reward_mean = mean(rewards);
    numbers.reward_std = sample_deviation(rewards);
  }
  double flat_groups = 0, truncated = 0;
  for (size_t begin = 0; begin < rollouts.size(); begin += group)
    flat_groups += equal_rewards(rollouts.subspan(begin, group)) ? 1 : 0;
  for (const Rollout& rollout : rollouts) {
    numbers.length_max = std::max(numbers.length_max, static_cast<double>(rollout.tokens.trained_count()));
    truncated += rollout.finish == Finish::kLength ? 1 : 0;
  }
  numbers.zero_std_groups = flat_groups / (count / static_cast<double>(group));
  numbers.length_mean = static_cast<double>(token_count(rollouts)) / count;
  numbers.truncated = truncated / count;
  return numbers;
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
  ValueMetrics numbers{.value_mean = mean(values), .return_mean = mean(returns)};
  if (const double spread = variance(returns); spread > 0) numbers.explained_variance = 1 - variance(errors) / spread;
  return numbers;
}

}  // namespace keel
