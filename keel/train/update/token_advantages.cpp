#include "keel/train/update/token_advantages.h"

#include "keel/objective/advantage.h"
#include "keel/objective/aggregation.h"

namespace keel {
namespace {

/// The numbers of all tokens as those of each sequence.
std::vector<std::vector<float>> by_sequence(const std::vector<double>& tokens, std::span<const int64_t> lengths) {
  std::vector<std::vector<float>> result;
  for_each_sequence(lengths, [&](size_t, size_t begin, size_t end) {
    result.emplace_back(tokens.begin() + begin, tokens.begin() + end);
  });
  return result;
}

}  // namespace

TokenWorth token_worth(const std::string& advantage, std::span<const Rollout> rollouts, const CriticOptions& critic) {
  std::vector<double> rewards, values;
  std::vector<int64_t> groups, lengths;
  for (const Rollout& rollout : rollouts) {
    rewards.push_back(rollout.reward);
    groups.push_back(rollout.prompt);
    lengths.push_back(static_cast<int64_t>(rollout.tokens.size()));
    values.insert(values.end(), rollout.values.begin(), rollout.values.end());
  }
  TokenWorth worth;
  if (advantage != "gae") {
    const std::vector<double> of_rollout = advantages(advantage, rewards, groups, lengths);
    for (size_t i = 0; i < rollouts.size(); ++i)
      worth.advantages.emplace_back(rollouts[i].tokens.size(), static_cast<float>(of_rollout[i]));
    return worth;
  }
  const std::vector<uint8_t> mask(values.size(), 1);
  AdvantagesAndReturns gae =
      gae_advantages({rewards, groups, lengths, mask, /*token_rewards=*/{}, values}, critic.gamma, critic.lambda);
  if (critic.whiten) whiten(gae.advantages, mask);
  return {by_sequence(gae.advantages, lengths), by_sequence(gae.returns, lengths)};
}

}  // namespace keel
