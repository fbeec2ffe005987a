#include "keel/train/policy_update.h"

#include <ATen/ATen.h>

#include "keel/objective/aggregation.h"
#include "keel/train/gradients.h"

namespace keel {

void accumulate_policy_gradients(const CausalLm& model, const Objective& objective, double temperature,
                                 int64_t tokens_per_batch, const ScoredRollouts& scored,
                                 std::span<const int64_t> minibatch, const TokenObserver& observe) {
  std::vector<TrainingSequence> sequences;
  std::vector<std::span<const float>> behavior;
  std::vector<double> advantages;
  std::vector<int64_t> lengths;
  for (const int64_t index : minibatch) {
    const Rollout& rollout = scored.rollouts[index];
    sequences.push_back({scored.prompts[rollout.prompt].tokens, rollout.tokens, rollout.prompt});
    behavior.push_back(rollout.behavior_logp);
    advantages.push_back(scored.advantages[index]);
    lengths.push_back(static_cast<int64_t>(rollout.tokens.size()));
  }
  const std::vector<double> weights = sequence_weights(objective.method.aggregation, lengths, objective.horizon);

  for (const PackedBatch& batch : pack(sequences, tokens_per_batch, model.device())) {
    const Tensor batch_behavior = gather_targets(batch, behavior);
    const Tensor batch_advantages = repeat_per_target(batch, advantages);
    const Tensor batch_weights = repeat_per_target(batch, weights);
    const auto coefficients = [&](const TokenStats& stats, int64_t begin, int64_t end) -> HeadCoefficients {
      const auto rows = [&](const Tensor& x) { return x.narrow(0, begin, end - begin); };
      const TokenPolicy policy{stats.logp, rows(batch_behavior), rows(batch_advantages)};
      const TokenDecision decision = token_coefficients(objective.method.region, policy);
      observe(batch, begin, stats, policy, decision);
      return {.coefficient = decision.coefficient * rows(batch_weights), .entropy_coefficient = {}};
    };
    accumulate_gradients(model, batch, temperature, objective.requirements().scope, coefficients);
  }
}

}  // namespace keel
