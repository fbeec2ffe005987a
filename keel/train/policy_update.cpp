#include "keel/train/policy_update.h"

#include <ATen/ATen.h>

#include "keel/objective/aggregation.h"
#include "keel/train/gradients.h"

namespace keel {
namespace {

/// The rollouts of one update, as the packing and the objective want them.
struct Minibatch {
  std::vector<const Rollout*> rollouts;
  std::vector<TrainingSequence> sequences;
  std::vector<double> advantages, weights;  // per sequence; weights are the aggregation's
};

Minibatch select(const ScoredRollouts& scored, std::span<const int64_t> indices, const Objective& objective) {
  Minibatch result;
  std::vector<int64_t> lengths;
  for (const int64_t index : indices) {
    const Rollout& rollout = scored.rollouts[index];
    result.rollouts.push_back(&rollout);
    result.sequences.push_back({scored.prompts[rollout.prompt].tokens, rollout.tokens, rollout.prompt});
    result.advantages.push_back(scored.advantages[index]);
    lengths.push_back(static_cast<int64_t>(rollout.tokens.size()));
  }
  result.weights = sequence_weights(objective.method.aggregation, lengths, objective.horizon);
  return result;
}

/// One recorded number per token of every sequence of the batch: [M] float32.
Tensor recorded(const PackedBatch& batch, const Minibatch& minibatch, const std::vector<float> Rollout::*member) {
  std::vector<std::span<const float>> values;
  for (const Rollout* rollout : minibatch.rollouts) values.push_back(rollout->*member);
  return gather_targets(batch, values);
}

/// What is known about the batch's targets before the network runs, as far as the method requires it.
struct Known {
  TokenPolicy policy;     // without logp and what else the network says
  BehaviorRows behavior;  // what the head is asked to compare with
};

Known known_about(const PackedBatch& batch, const Minibatch& minibatch, const Requirements& needs,
                  const Tensor& behavior_head) {
  Known known;
  known.policy.behavior_logp = recorded(batch, minibatch, &Rollout::behavior_logp);
  known.policy.advantages = repeat_per_target(batch, minibatch.advantages);
  if (needs.recomputed_logp) known.policy.old_logp = recorded(batch, minibatch, &Rollout::recomputed_logp);
  if (needs.scope != Scope::kToken) {
    known.policy.lengths = batch.lengths;
    for (const int64_t s : batch.sequences) known.policy.groups.push_back(minibatch.rollouts[s]->prompt);
  }
  if (needs.top_k > 0) {
    std::vector<int64_t> ids;
    for (const int64_t s : batch.sequences)
      ids.insert(ids.end(), minibatch.rollouts[s]->topk_ids.begin(), minibatch.rollouts[s]->topk_ids.end());
    known.behavior.topk_ids = at::tensor(ids, at::kLong).view({batch.target_count(), -1}).to(batch.targets.device());
    known.policy.topk_behavior_logp =
        recorded(batch, minibatch, &Rollout::topk_behavior_logp).view_as(known.behavior.topk_ids);
    known.policy.sampled_in_topk = (known.behavior.topk_ids == batch.targets.unsqueeze(1)).any(1);
  }
  if (needs.hidden_states) {
    std::vector<Tensor> states;
    for (const int64_t s : batch.sequences) states.push_back(minibatch.rollouts[s]->hidden_states);
    known.behavior.hidden = at::cat(states);
    known.behavior.weight = behavior_head;
  }
  return known;
}

/// The rows [begin, end) of what is known, with what the head says of them.
TokenPolicy with_statistics(const TokenPolicy& known, const TokenStats& stats, const Requirements& needs, int64_t begin,
                            int64_t end) {
  const auto rows = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, end - begin) : x; };
  TokenPolicy policy{stats.logp, rows(known.behavior_logp), rows(known.advantages)};
  policy.lengths = known.lengths;  // wider scopes are asked about all rows at once
  policy.groups = known.groups;
  policy.old_logp = rows(known.old_logp);
  policy.topk_behavior_logp = rows(known.topk_behavior_logp);
  policy.topk_logp = stats.topk_logp;
  policy.sampled_in_topk = rows(known.sampled_in_topk);
  if (needs.hidden_states) policy.divergence = needs.exact_kl ? stats.full_kl : stats.full_tv;
  return policy;
}

}  // namespace

void accumulate_policy_gradients(const CausalLm& model, const Objective& objective, double temperature,
                                 int64_t tokens_per_batch, const ScoredRollouts& scored,
                                 std::span<const int64_t> indices, const TokenObserver& observe) {
  const Requirements needs = objective.requirements();
  const Minibatch minibatch = select(scored, indices, objective);
  for (const PackedBatch& batch : pack(minibatch.sequences, tokens_per_batch, model.device())) {
    const Known known = known_about(batch, minibatch, needs, scored.behavior_head);
    const Tensor weights = repeat_per_target(batch, minibatch.weights);
    const auto coefficients = [&](const TokenStats& stats, int64_t begin, int64_t end) -> HeadCoefficients {
      const TokenPolicy policy = with_statistics(known.policy, stats, needs, begin, end);
      const TokenDecision decision = token_coefficients(objective.method.region, policy);
      observe(batch, begin, stats, policy, decision);
      return {.coefficient = decision.coefficient * weights.narrow(0, begin, end - begin), .entropy_coefficient = {}};
    };
    accumulate_gradients(model, batch, temperature, needs.scope, coefficients, known.behavior);
  }
}

}  // namespace keel
