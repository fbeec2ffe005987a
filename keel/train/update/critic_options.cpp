#include "keel/train/update/critic_options.h"

#include "keel/core/options/options.h"

namespace keel {

void CriticOptions::describe(OptionTable& table) {
  table.add("body", body,
            "Backbone of the critic: the policy's (shared), or a second network that starts as a copy of the policy "
            "(separate); none means no critic.",
            one_of({"none", "shared", "separate"}));
  table.add("lr", lr, "Learning rate of the critic's head and of a separate body; null means 10 times optimizer.lr.",
            at_least(0));
  table.add("value_clip", value_clip,
            "PPO value clipping: the maximum change of a value since the advantages were computed, beyond which the "
            "loss has no gradient; null means no limit.",
            above(0));
  table.add("gamma", gamma, "Discount factor per token.", above(0).at_most(1));
  table.add("lambda", lambda,
            "GAE lambda: 0 uses only the critic's values (low variance), 1 only the rewards (no bias).",
            at_least(0).at_most(1));
  table.add("warmup_steps", warmup_steps, "Initial RL steps that train only the critic, not the policy.", at_least(0));
}

}  // namespace keel
