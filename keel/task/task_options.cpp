#include "keel/core/options/options.h"
#include "keel/task/chains.h"
#include "keel/task/task.h"

namespace keel {

void TaskOptions::describe(OptionTable& table) {
  table.add("name", name, "Built-in task: chains; countdown, or the harder countdown_2 to countdown_5.", not_empty());
  table.add("modulus", modulus, "Chains: modulus of the arithmetic; numbers are 0 to modulus - 1.",
            at_least(ChainsTask::kMinModulus).at_most(ChainsTask::kMaxModulus));
  table.add("steps", steps, "Chains: number of operations in a problem.", at_least(1).at_most(ChainsTask::kMaxSteps));
  table.add("words", words, "Chains: number of connective words; their frequencies follow Zipf's law.",
            at_least(1).at_most(ChainsTask::kMaxWords));
  table.add("careful", careful, "Chains: number of rare words after which demonstrations make few mistakes.",
            at_least(0).at_most(ChainsTask::kMaxCareful));
  table.add("error", error, "Chains: probability that a step of a noisy demonstration has a random result.",
            at_least(0.0).at_most(1.0));
  table.add("mode", mode, "Chains: whether the first word determines the error rate of the whole demonstration.");
}

}  // namespace keel
