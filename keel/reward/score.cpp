#include "keel/reward/score.h"

#include <cmath>

#include "keel/core/error.h"

namespace keel {

void score(std::span<Rollout> rollouts, std::span<const Prompt> prompts, const Tokenizer& tokenizer,
           const RewardFunction& reward) {
  for (Rollout& rollout : rollouts) {
    const Prompt& prompt = prompts[rollout.prompt];
    rollout.reward = reward(prompt, tokenizer.decode(rollout.tokens, /*skip_special=*/false));
    if (!std::isfinite(rollout.reward))
      fail(ExitCode::kRewardProgramFailed, "the reward of a completion of prompt ", prompt.id, " (", prompt.source,
           ") is ", rollout.reward, "; a reward must be a finite number");
  }
}

}  // namespace keel
