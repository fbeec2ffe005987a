#include "keel/objective/advantage.h"

#include <cmath>
#include <map>
#include <numeric>

#include "keel/core/error.h"
#include "keel/objective/aggregation.h"

namespace keel {
namespace {

struct Statistics {
  double count = 0, mean = 0, variance = 0;  // unbiased (n - 1); 0 for a single value
  bool all_equal = true;  // compared exactly, since the rounded mean of equal values can differ from them
};

Statistics compute_statistics(std::span<const double> values) {
  Statistics result;
  result.count = static_cast<double>(values.size());
  for (const double value : values) {
    result.mean += value / result.count;
    result.all_equal = result.all_equal && value == values[0];
  }
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.variance = squares / (result.count - 1);
  return result;
}

/// Returns (R - mean) / scale(group statistics); 0 in a group of equal rewards.
template <class Scale>
std::vector<double> normalise(std::span<const double> rewards, std::span<const int64_t> groups, Scale scale) {
  if (rewards.size() != groups.size())
    fail(ExitCode::kInternal, rewards.size(), " rewards in ", groups.size(), " groups: expected one group per reward");
  std::map<int64_t, std::vector<double>> members;
  for (size_t i = 0; i < rewards.size(); ++i) members[groups[i]].push_back(rewards[i]);
  std::map<int64_t, Statistics> statistics;
  for (const auto& [group, values] : members) statistics[group] = compute_statistics(values);
  std::vector<double> result(rewards.size(), 0.0);
  for (size_t i = 0; i < rewards.size(); ++i) {
    const Statistics& group = statistics.at(groups[i]);
    if (!group.all_equal) result[i] = (rewards[i] - group.mean) / scale(group);
  }
  return result;
}

void check_sizes(const TokenRewards& batch) {
  count_valid_tokens(batch.lengths, batch.mask);  // fails if lengths and mask do not fit
  const size_t tokens = batch.mask.size();
  if (!batch.token_rewards.empty() && batch.token_rewards.size() != tokens)
    fail(ExitCode::kInternal, batch.token_rewards.size(), " token rewards for ", tokens, " tokens");
  if (batch.token_rewards.empty() && batch.rewards.size() != batch.lengths.size())
    fail(ExitCode::kInternal, batch.rewards.size(), " rewards for ", batch.lengths.size(), " sequences");
}

/// Returns each sequence's reward on its last valid token, and 0 on all others.
std::vector<double> terminal_rewards(const TokenRewards& batch) {
  std::vector<double> result(batch.mask.size(), 0.0);
  for_each_sequence(batch.lengths, [&](size_t s, size_t begin, size_t end) {
    while (end > begin && batch.mask[end - 1] == 0) --end;
    if (end > begin) result[end - 1] = batch.rewards[s];
  });
  return result;
}

}  // namespace

void whiten(std::vector<double>& tokens, std::span<const uint8_t> mask, double eps) {
  std::vector<double> valid;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (mask[i] != 0) valid.push_back(tokens[i]);
  const Statistics all = compute_statistics(valid);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = mask[i] == 0 || all.all_equal ? 0.0 : (tokens[i] - all.mean) / std::sqrt(all.variance + eps);
}

std::vector<double> group_mean_advantages(std::span<const double> rewards, std::span<const int64_t> groups) {
  return normalise(rewards, groups, [](const Statistics&) { return 1.0; });
}

std::vector<double> grpo_advantages(std::span<const double> rewards, std::span<const int64_t> groups, double eps) {
  return normalise(rewards, groups, [eps](const Statistics& group) { return std::sqrt(group.variance) + eps; });
}

std::vector<double> rloo_advantages(std::span<const double> rewards, std::span<const int64_t> groups) {
  // R - (n mean - R) / (n - 1) = (R - mean) n / (n - 1)
  return normalise(rewards, groups, [](const Statistics& group) { return (group.count - 1) / group.count; });
}

std::vector<double> maxrl_advantages(std::span<const double> rewards, std::span<const int64_t> groups) {
  for (const double reward : rewards)
    if (reward < 0)
      fail(ExitCode::kBadInput, "a completion has the reward ", reward,
           ", but the advantage maxrl divides by the mean reward of its group; expected rewards of at least 0. Fix: "
           "choose objective.advantage=group_mean or another, or rewards that are not negative");
  return normalise(rewards, groups, [](const Statistics& group) { return group.mean; });
}

std::vector<double> batch_mean_advantages(std::span<const double> rewards) {
  return group_mean_advantages(rewards, std::vector<int64_t>(rewards.size(), 0));
}

std::vector<double> gdpo_advantages(std::span<const std::vector<double>> functions, std::span<const double> weights,
                                    std::span<const int64_t> groups, double eps) {
  std::vector<double> sums(groups.size(), 0.0);
  for (size_t f = 0; f < functions.size(); ++f) {
    std::vector<size_t> scored;
    std::vector<double> rewards;
    std::vector<int64_t> their_groups;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (std::isnan(functions[f][i])) continue;
      scored.push_back(i), rewards.push_back(functions[f][i]), their_groups.push_back(groups[i]);
    }
    const std::vector<double> normalised = grpo_advantages(rewards, their_groups, eps);
    for (size_t i = 0; i < scored.size(); ++i) sums[scored[i]] += weights[f] * normalised[i];
  }
  return grpo_advantages(sums, std::vector<int64_t>(sums.size(), 0), eps);
}

std::vector<double> reinforce_pp_advantages(const TokenRewards& batch, double gamma, double eps) {
  // Discounted returns are GAE with lambda 1 and values 0.
  const std::vector<double> zeros(batch.mask.size(), 0.0);
  TokenRewards returns = batch;
  returns.token_rewards = {};
  returns.values = zeros;
  std::vector<double> result = gae_advantages(returns, gamma, /*lambda=*/1).returns;
  whiten(result, batch.mask, eps);
  return result;
}

std::vector<double> reinforce_pp_baseline_advantages(const TokenRewards& batch, double eps) {
  check_sizes(batch);
  const std::vector<double> sequence_values = group_mean_advantages(batch.rewards, batch.groups);
  std::vector<double> result(batch.mask.size(), 0.0);
  for_each_sequence(batch.lengths, [&](size_t s, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) result[i] = sequence_values.at(s);
  });
  whiten(result, batch.mask, eps);
  return result;
}

AdvantagesAndReturns gae_advantages(const TokenRewards& batch, double gamma, double lambda) {
  check_sizes(batch);
  const size_t tokens = batch.mask.size();
  if (batch.values.size() != tokens) fail(ExitCode::kInternal, batch.values.size(), " values for ", tokens, " tokens");
  const std::vector<double> terminal = batch.token_rewards.empty() ? terminal_rewards(batch) : std::vector<double>{};
  const std::span<const double> rewards = batch.token_rewards.empty() ? terminal : batch.token_rewards;
  AdvantagesAndReturns result{std::vector<double>(tokens, 0.0), std::vector<double>(tokens, 0.0)};
  for_each_sequence(batch.lengths, [&](size_t, size_t begin, size_t end) {
    double next_value = 0, next_advantage = 0;
    for (size_t i = end; i-- > begin;) {
      if (batch.mask[i] == 0) continue;
      const double td_error = rewards[i] + gamma * next_value - batch.values[i];
      next_advantage = td_error + gamma * lambda * next_advantage;
      next_value = batch.values[i];
      result.advantages[i] = next_advantage;
      result.returns[i] = next_advantage + batch.values[i];
    }
  });
  return result;
}

std::vector<double> sequence_advantages(const std::string& kind, std::span<const double> rewards,
                                        std::span<const int64_t> groups, std::span<const int64_t> lengths, double eps) {
  if (kind == "group_mean") return group_mean_advantages(rewards, groups);
  if (kind == "grpo") return grpo_advantages(rewards, groups, eps);
  if (kind == "rloo") return rloo_advantages(rewards, groups);
  if (kind == "maxrl") return maxrl_advantages(rewards, groups);
  if (kind == "batch_mean") return batch_mean_advantages(rewards);
  if (kind != "reinforce_pp" && kind != "reinforce_pp_baseline")
    fail(ExitCode::kBadConfiguration, "objective.advantage is \"", kind,
         "\"; known sequence-level estimators: group_mean, grpo, rloo, maxrl, batch_mean, reinforce_pp, "
         "reinforce_pp_baseline");
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const std::vector<uint8_t> mask(static_cast<size_t>(tokens), 1);
  const TokenRewards batch{rewards, groups, lengths, mask, {}, {}};
  const std::vector<double> per_token =
      kind == "reinforce_pp" ? reinforce_pp_advantages(batch) : reinforce_pp_baseline_advantages(batch);
  std::vector<double> first;
  for_each_sequence(lengths, [&](size_t, size_t begin, size_t) { first.push_back(per_token[begin]); });
  return first;
}

}  // namespace keel
