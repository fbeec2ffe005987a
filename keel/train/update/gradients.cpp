#include "keel/train/update/gradients.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "keel/model/network/packed_forward.h"

namespace keel {
namespace {

/// The segment id of each packed token.
Tensor segment_id_per_token(const PackedBatch& batch) {
  std::vector<int64_t> ids(static_cast<size_t>(batch.tokens.size(0)));
  for (size_t s = 0; s < batch.segments.size(); ++s)
    std::fill_n(ids.begin() + batch.segments[s].begin, batch.segments[s].length, batch.segment_ids[s]);
  return at::tensor(ids, at::kLong).to(batch.tokens.device());
}

}  // namespace

Tensor target_hidden_states(const CausalLm& model, const PackedBatch& batch, const Dropout& dropout) {
  Dropout keyed = dropout;
  if (dropout.probability > 0) keyed.sequences = segment_id_per_token(batch), keyed.positions = batch.positions;
  return packed_hidden_states(model, batch.tokens, batch.positions, batch.segments, keyed)
      .index_select(0, batch.logits_indices);
}

TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior) {
  const at::NoGradGuard no_grad;
  return model.lm_head(temperature).statistics(target_hidden_states(model, batch), batch.targets, behavior);
}

void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, const UpdateOptions& options, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior) {
  const auto scaled = [&](const TokenStats& stats, int64_t begin, int64_t end) {
    HeadCoefficients result = coefficients(stats, begin, end);
    result.coefficient = result.coefficient * options.loss_scale;
    if (result.entropy_coefficient.defined())
      result.entropy_coefficient = result.entropy_coefficient * options.loss_scale;
    if (result.centering.advantages.defined())
      result.centering.advantages = result.centering.advantages * options.loss_scale;
    return result;
  };
  const Tensor hidden = target_hidden_states(model, batch, options.dropout);
  Tensor gradient =
      model.lm_head(options.temperature).backward(hidden.detach(), batch.targets, scope, scaled, behavior);
  if (options.aux_loss) gradient.add_(options.aux_loss(batch, hidden.detach()), options.loss_scale);
  hidden.backward(gradient.to(hidden.scalar_type()));
}

}  // namespace keel
