#include "keel/train/update/policy_tokens.h"

#include <ATen/ATen.h>

namespace keel {

Tensor recorded(const PackedBatch& batch, const SelectedRollouts& chosen, TokenColumn column) {
  std::vector<std::span<const float>> values;
  for (const Rollout* rollout : chosen.rollouts) values.push_back(rollout->tokens.*column);
  return gather_targets(batch, values);
}

namespace {

/// The same, or undefined where rollouts came without it.
Tensor recorded_if_known(const PackedBatch& batch, const SelectedRollouts& chosen, TokenColumn column) {
  for (const int64_t s : batch.sequences)
    if (std::ssize(chosen.rollouts[s]->tokens.*column) != chosen.rollouts[s]->tokens.trained_count()) return {};
  return recorded(batch, chosen, column);
}

}  // namespace

std::vector<int64_t> SelectedRollouts::lengths() const {
  std::vector<int64_t> result;
  for (const Rollout* rollout : rollouts) result.push_back(rollout->tokens.trained_count());
  return result;
}

TrainingSequence training_sequence(const Rollout& rollout, int64_t key) {
  return {rollout.tokens.prompt->ids, rollout.tokens.ids, rollout.prompt, key, rollout.tokens.trained};
}

SelectedRollouts select_rollouts(const ScoredRollouts& scored, std::span<const int64_t> indices) {
  SelectedRollouts chosen;
  chosen.behavior_head = scored.behavior_head;
  for (const int64_t index : indices) {
    const Rollout& rollout = scored.rollouts[index];
    chosen.rollouts.push_back(&rollout);
    chosen.sequences.push_back(training_sequence(rollout, index));
    chosen.advantages.push_back(scored.advantages[index]);
    if (!scored.returns.empty()) chosen.returns.push_back(scored.returns[index]);
  }
  return chosen;
}

TokenInputs gather_token_inputs(const PackedBatch& batch, const SelectedRollouts& chosen, const Requirements& needs) {
  TokenInputs known;
  known.policy.behavior_logp = recorded(batch, chosen, &TokenColumns::behavior_logp);
  known.policy.behavior_other_logp = recorded_if_known(batch, chosen, &TokenColumns::behavior_other_logp);
  known.policy.advantages = gather_targets(batch, chosen.advantages);
  if (needs.recomputed_logp) {
    known.policy.old_logp = recorded(batch, chosen, &TokenColumns::recomputed_logp);
    known.policy.old_other_logp = recorded_if_known(batch, chosen, &TokenColumns::recomputed_other_logp);
  }
  if (needs.reference_logp) known.reference_logp = recorded(batch, chosen, &TokenColumns::reference_logp);
  if (needs.scope != Scope::kToken) {
    known.policy.lengths = batch.lengths;
    for (const int64_t s : batch.sequences) known.policy.groups.push_back(chosen.rollouts[s]->prompt);
  }
  if (needs.top_k > 0) {
    std::vector<int64_t> ids;
    for (const int64_t s : batch.sequences)
      ids.insert(ids.end(), chosen.rollouts[s]->tokens.topk_ids.begin(), chosen.rollouts[s]->tokens.topk_ids.end());
    known.behavior.topk_ids = at::tensor(ids, at::kLong).view({batch.target_count(), -1}).to(batch.targets.device());
    known.policy.topk_behavior_logp =
        recorded(batch, chosen, &TokenColumns::topk_behavior_logp).view_as(known.behavior.topk_ids);
    known.policy.sampled_in_topk = (known.behavior.topk_ids == batch.targets.unsqueeze(1)).any(1);
  }
  if (needs.hidden_states) {
    std::vector<Tensor> states;
    for (const int64_t s : batch.sequences) states.push_back(chosen.rollouts[s]->tokens.hidden_states);
    known.behavior.hidden = at::cat(states);
    known.behavior.weight = chosen.behavior_head;
  }
  return known;
}

LossInputs with_statistics(const TokenInputs& known, const TokenStats& stats, const Requirements& needs,
                           int64_t begin) {
  const LossInputs& all = known.policy;
  const int64_t count = stats.logp.size(0);
  LossInputs policy;
  for (const auto column : kTokenColumns)
    if ((all.*column).defined()) policy.*column = (all.*column).narrow(0, begin, count);
  if (count == all.behavior_logp.size(0)) {  // a part of the rows need not be whole sequences
    policy.lengths = all.lengths;
    policy.groups = all.groups;
  }
  policy.logp = stats.logp;
  policy.other_logp = stats.other_logp;
  policy.topk_logp = stats.topk_logp;
  if (needs.hidden_states) policy.divergence = needs.exact_kl ? stats.full_kl : stats.full_tv;
  return policy;
}

}  // namespace keel
