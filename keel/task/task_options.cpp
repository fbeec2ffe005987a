#include "keel/core/options/options.h"
#include "keel/task/chains.h"
#include "keel/task/task.h"

namespace keel {

void TaskOptions::describe(OptionTable& table) {
  table.add("name", name, "The built-in task: chains; countdown, or countdown_2 to countdown_5, which are harder.",
            not_empty());
  table.add("modulus", modulus, "Chains: numbers are 0 to modulus - 1, and arithmetic is modulo this.",
            at_least(ChainsTask::kMinModulus).at_most(ChainsTask::kMaxModulus));
  table.add("steps", steps, "Chains: number of operations in a problem.", at_least(1).at_most(ChainsTask::kMaxSteps));
  table.add("words", words, "Chains: number of connective words, the first used most (Zipf's law).",
            at_least(1).at_most(ChainsTask::kMaxWords));
  table.add("careful", careful, "Chains: number of rare words after which demonstrations make few mistakes.",
            at_least(0).at_most(ChainsTask::kMaxCareful));
  table.add("error", error, "Chains: probability that a step of a noisy demonstration gives a random number.",
            at_least(0.0).at_most(1.0));
  table.add("mode", mode, "Chains: the first word decides the error rate of the whole demonstration.");
}

}  // namespace keel
