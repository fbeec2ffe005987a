#include "keel/train/update/token_advantages.h"

#include <ATen/ATen.h>

#include <limits>
#include <numeric>

#include "keel/objective/aggregation.h"

namespace keel {
namespace {

/// Splits the values of all tokens by sequence.
std::vector<std::vector<float>> split_by_sequence(const std::vector<double>& tokens, std::span<const int64_t> lengths) {
  std::vector<std::vector<float>> result;
  for_each_sequence(lengths, [&](size_t, size_t begin, size_t end) {
    result.emplace_back(tokens.begin() + begin, tokens.begin() + end);
  });
  return result;
}

std::vector<double> gdpo_advantages_of(std::span<const Rollout> rollouts, std::span<const int64_t> groups, double eps) {
  std::vector<std::vector<double>> functions;
  std::vector<double> weights;
  for (size_t i = 0; i < rollouts.size(); ++i)
    for (const auto& [function, weight, reward] : rollouts[i].function_rewards) {
      while (std::ssize(functions) <= function) {
        functions.emplace_back(rollouts.size(), std::numeric_limits<double>::quiet_NaN());
        weights.push_back(0);
      }
      functions[static_cast<size_t>(function)][i] = reward;
      weights[static_cast<size_t>(function)] = weight;
    }
  return gdpo_advantages(functions, weights, groups, eps);
}

}  // namespace

TokenAdvantages compute_advantages(const std::string& advantage, std::span<const Rollout> rollouts,
                                   const CriticOptions& critic, std::span<const std::vector<double>> penalties,
                                   double eps) {
  std::vector<double> rewards, token_rewards, values;
  std::vector<int64_t> groups, lengths;
  for (const Rollout& rollout : rollouts) {
    rewards.push_back(rollout.reward);
    groups.push_back(rollout.prompt);
    lengths.push_back(rollout.tokens.trained_count());
    values.insert(values.end(), rollout.tokens.values.begin(), rollout.tokens.values.end());
  }
  for (size_t i = 0; i < penalties.size(); ++i) {
    for (const double penalty : penalties[i]) token_rewards.push_back(-penalty);
    token_rewards.back() += rewards[i];  // a completion has at least one token
    rewards[i] -= std::accumulate(penalties[i].begin(), penalties[i].end(), 0.0);
  }
  TokenAdvantages result;
  const auto repeat_per_token = [&](const std::vector<double>& per_rollout) {
    for (size_t i = 0; i < rollouts.size(); ++i)
      result.advantages.emplace_back(lengths[i], static_cast<float>(per_rollout[i]));
    return result;
  };
  if (advantage == "gdpo") return repeat_per_token(gdpo_advantages_of(rollouts, groups, eps));
  const bool is_per_token = advantage == "gae" || (advantage == "reinforce_pp" && !penalties.empty());
  if (!is_per_token) return repeat_per_token(sequence_advantages(advantage, rewards, groups, lengths, eps));
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const std::vector<uint8_t> mask(static_cast<size_t>(tokens), 1);  // all trained tokens are valid
  if (advantage == "reinforce_pp") {  // reward-to-go equals GAE with values 0 and lambda 1
    values.assign(mask.size(), 0.0);
    std::vector<double> returns = gae_advantages({rewards, groups, lengths, mask, token_rewards, values}, 1, 1).returns;
    whiten(returns, mask);
    return {split_by_sequence(returns, lengths), {}};
  }
  AdvantagesAndReturns gae =
      gae_advantages({rewards, groups, lengths, mask, token_rewards, values}, critic.gamma, critic.lambda);
  whiten(gae.advantages, mask);
  return {split_by_sequence(gae.advantages, lengths), split_by_sequence(gae.returns, lengths)};
}

std::optional<RewardPenalty> reward_penalty(const RewardKlPenalty& kl, std::span<const Rollout> rollouts) {
  if (kl.coefficient == 0 || rollouts.empty()) return std::nullopt;
  const auto to_double = [](const std::vector<float>& values) { return at::tensor(values).to(at::kDouble); };
  RewardPenalty result{.tokens = {}, .coefficient = kl.coefficient};
  for (const Rollout& rollout : rollouts) {
    const Tensor estimates =
        reference_kl(kl.estimator, to_double(rollout.tokens.recomputed_logp), to_double(rollout.tokens.reference_logp));
    const double* first = estimates.const_data_ptr<double>();
    std::vector<double>& penalties = result.tokens.emplace_back(first, first + estimates.numel());
    double sum = 0;
    for (double& penalty : penalties) {
      sum += penalty;
      penalty *= kl.coefficient;
    }
    result.kl += sum / static_cast<double>(penalties.size()) / static_cast<double>(rollouts.size());
  }
  return result;
}

}  // namespace keel
