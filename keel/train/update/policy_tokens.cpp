#include "keel/train/update/policy_tokens.h"

#include <ATen/ATen.h>

namespace keel {

Tensor gather_column(const PackedBatch& batch, const SelectedRollouts& selected, RolloutColumn column) {
  std::vector<std::span<const float>> values;
  for (const Rollout* rollout : selected.rollouts) values.push_back(rollout->tokens.*column);
  return gather_targets(batch, values);
}

namespace {

/// Like gather_column(), but undefined if a rollout does not have the column.
Tensor gather_column_if_present(const PackedBatch& batch, const SelectedRollouts& selected, RolloutColumn column) {
  for (const int64_t s : batch.sequences)
    if (std::ssize(selected.rollouts[s]->tokens.*column) != selected.rollouts[s]->tokens.trained_count()) return {};
  return gather_column(batch, selected, column);
}

}  // namespace

KeptRows gather_kept_tokens(const PackedBatch& batch, std::span<const Rollout* const> rollouts) {
  std::vector<int32_t> sizes, words;
  std::vector<int64_t> begins;
  for (const int64_t s : batch.sequences) {
    const KeptTokens& kept = rollouts[s]->tokens.kept;
    auto begin = static_cast<int64_t>(words.size());
    for (const int32_t size : kept.sizes) {
      begins.push_back(begin);
      begin += kept_words(size, kept.vocab);
    }
    sizes.insert(sizes.end(), kept.sizes.begin(), kept.sizes.end());
    words.insert(words.end(), kept.words.begin(), kept.words.end());
  }
  if (sizes.empty()) return {};
  const at::Device device = batch.targets.device();
  return {at::tensor(sizes, at::kInt).to(device), at::tensor(begins, at::kLong).to(device),
          at::tensor(words, at::kInt).to(device)};
}

std::vector<int64_t> SelectedRollouts::lengths() const {
  std::vector<int64_t> result;
  for (const Rollout* rollout : rollouts) result.push_back(rollout->tokens.trained_count());
  return result;
}

std::vector<int64_t> SelectedRollouts::prompts() const {
  std::vector<int64_t> result;
  for (const Rollout* rollout : rollouts) result.push_back(rollout->prompt);
  return result;
}

TrainingSequence training_sequence(const Rollout& rollout, int64_t completion_id) {
  return {rollout.tokens.prompt->ids, rollout.tokens.ids, rollout.prompt, completion_id, rollout.tokens.trained};
}

SelectedRollouts select_rollouts(const ScoredRollouts& scored, std::span<const int64_t> indices) {
  SelectedRollouts selected;
  selected.behavior_head = scored.behavior_head;
  for (const int64_t index : indices) {
    const Rollout& rollout = scored.rollouts[index];
    selected.rollouts.push_back(&rollout);
    selected.sequences.push_back(training_sequence(rollout, index));
    selected.advantages.push_back(scored.advantages[index]);
    if (!scored.returns.empty()) selected.returns.push_back(scored.returns[index]);
  }
  return selected;
}

TokenInputs gather_token_inputs(const PackedBatch& batch, const SelectedRollouts& selected, const Requirements& needs) {
  TokenInputs inputs;
  inputs.loss_inputs.behavior_logp = gather_column(batch, selected, &TokenColumns::behavior_logp);
  inputs.loss_inputs.behavior_other_logp =
      gather_column_if_present(batch, selected, &TokenColumns::behavior_other_logp);
  inputs.loss_inputs.advantages = gather_targets(batch, selected.advantages);
  if (needs.recomputed_logp) {
    inputs.loss_inputs.old_logp = gather_column(batch, selected, &TokenColumns::recomputed_logp);
    inputs.loss_inputs.old_other_logp = gather_column_if_present(batch, selected, &TokenColumns::recomputed_other_logp);
  }
  if (needs.reference_logp) inputs.reference_logp = gather_column(batch, selected, &TokenColumns::reference_logp);
  inputs.behavior.kept = gather_kept_tokens(batch, selected.rollouts);
  inputs.loss_inputs.choices = inputs.behavior.kept.sizes;
  if (needs.scope != Scope::kToken) {
    inputs.loss_inputs.lengths = batch.lengths;
    for (const int64_t s : batch.sequences) inputs.loss_inputs.groups.push_back(selected.rollouts[s]->prompt);
  }
  if (needs.top_k > 0) {
    std::vector<int64_t> ids;
    for (const int64_t s : batch.sequences)
      ids.insert(ids.end(), selected.rollouts[s]->tokens.topk_ids.begin(), selected.rollouts[s]->tokens.topk_ids.end());
    inputs.behavior.topk_ids = at::tensor(ids, at::kLong).view({batch.target_count(), -1}).to(batch.targets.device());
    inputs.loss_inputs.topk_behavior_logp =
        gather_column(batch, selected, &TokenColumns::topk_behavior_logp).view_as(inputs.behavior.topk_ids);
    inputs.loss_inputs.sampled_in_topk = (inputs.behavior.topk_ids == batch.targets.unsqueeze(1)).any(1);
  }
  if (needs.hidden_states) {
    std::vector<Tensor> states;
    for (const int64_t s : batch.sequences) states.push_back(selected.rollouts[s]->tokens.hidden_states);
    inputs.behavior.hidden = at::cat(states);
    inputs.behavior.weight = selected.behavior_head;
  }
  return inputs;
}

LossInputs add_statistics(const TokenInputs& inputs, const TokenStats& stats, const Requirements& needs,
                          int64_t begin) {
  const LossInputs& all = inputs.loss_inputs;
  const int64_t count = stats.logp.size(0);
  LossInputs policy;
  for (const auto column : kLossTensors)
    if ((all.*column).defined()) policy.*column = (all.*column).narrow(0, begin, count);
  if (count == all.behavior_logp.size(0)) {  // a smaller chunk may split sequences
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
