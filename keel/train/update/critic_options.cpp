#include "keel/train/update/critic_options.h"

#include "keel/core/options/options.h"

namespace keel {

void CriticOptions::describe(OptionTable& table) {
  table.add("body", body,
            "Whose hidden states the critic's values are read from: the policy's own (shared), or those of a second "
            "network that starts as a copy of the policy (separate); none means no critic.",
            one_of({"none", "shared", "separate"}));
  table.add("lr", lr,
            "Learning rate of the critic: of its head, and of a separate body; null means 10 times optimizer.lr.",
            at_least(0));
  table.add("value_clip", value_clip,
            "How far a value may move from what it was when the advantages were computed before its loss stops "
            "pulling; null means no limit.",
            above(0));
  table.add("gamma", gamma, "Discount of a reward per token.", above(0).at_most(1));
  table.add("lambda", lambda,
            "What GAE trusts: 0 the values alone, 1 the rewards alone; between them less bias or less noise.",
            at_least(0).at_most(1));
  table.add("warmup_steps", warmup_steps, "First RL steps in which only the critic learns and the policy waits.",
            at_least(0));
}

}  // namespace keel
