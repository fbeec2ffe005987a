#include "keel/evaluation/eval_options.h"

#include "keel/core/options/options.h"

namespace keel {

void EvalOptions::describe(OptionTable& table) {
  table.add(
      "prompts", prompts,
      "Held-out prompts per evaluation, the first ones; null means all rows of files, and of a built-in task 512. 0 "
      "evaluates nothing.",
      at_least(0).at_most(1 << 20));
  table.add("every", every, "RL steps between evaluations; 0 means only before and after.", at_least(0));
  table.add("samples", samples, "Completions sampled for each prompt of an evaluation.", at_least(1).at_most(1 << 16));
  table.add("temperature", temperature,
            "Sampling temperature of evaluations; 0 is greedy, and otherwise the least is 0.0001.",
            at_least(0).at_most(100));
  table.add("top_k", top_k, "Evaluations sample from this many of the likeliest tokens; 0 is all of them.",
            at_least(0).at_most(1 << 27));
  table.add(
      "top_p", top_p,
      "Evaluations sample from the smallest set of likeliest tokens with this much probability; 1 is all of them.",
      above(0).at_most(1));
}

}  // namespace keel
