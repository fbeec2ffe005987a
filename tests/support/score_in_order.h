#pragma once

#include "keel/reward/score.h"

namespace keel {

/// Sets the reward of every rollout, group by group. Scoring during generation must give the same rewards.
inline ScoreReport score_in_order(std::span<Rollout> rollouts, std::span<const Prompt> prompts,
                                  const Tokenizer& tokenizer, const RewardSum& reward) {
  ScoreReport all;
  for (size_t begin = 0, end = 0; begin < rollouts.size(); begin = end) {
    while (end < rollouts.size() && rollouts[end].prompt == rollouts[begin].prompt) ++end;
    const std::span<Rollout> group = rollouts.subspan(begin, end - begin);
    const GroupScore score = score_group(make_reward_samples(group, prompts, tokenizer), reward);
    for (size_t k = 0; k < group.size(); ++k) score.set_reward(k, group[k]);
    all.add(score.report);
  }
  return all;
}

}  // namespace keel
