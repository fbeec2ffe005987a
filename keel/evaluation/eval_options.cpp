#include "keel/evaluation/eval_options.h"

#include "keel/core/options/options.h"

namespace keel {

void EvalOptions::describe(OptionTable& table) {
  table.add(
      "prompts", prompts,
      "Number of held-out prompts per evaluation, from the first on. null: all rows of the files, or 512 prompts of a "
      "built-in task. 0 turns evaluation off.",
      at_least(0).at_most(1 << 20));
  table.add("every", every, "RL steps between evaluations. 0 evaluates only before and after training.", at_least(0));
  table.add("samples", samples, "Completions per prompt of an evaluation.", at_least(1).at_most(1 << 16));
  table.add("temperature", temperature, "Sampling temperature of evaluations: 0 (greedy), or at least 0.0001.",
            at_least(0).at_most(100));
  table.add("top_k", top_k, "Evaluations sample from this number of most likely tokens. 0: all tokens.",
            at_least(0).at_most(1 << 27));
  table.add("top_p", top_p,
            "Evaluations sample from the smallest set of most likely tokens whose probabilities reach this sum. 1: all "
            "tokens.",
            above(0).at_most(1));
}

}  // namespace keel
