#include "keel/train/update/gradients.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "keel/model/network/packed_forward.h"

namespace keel {
namespace {

/// The number of what each packed token is of.
Tensor owner_of_tokens(const PackedBatch& batch) {
  std::vector<int64_t> owners(static_cast<size_t>(batch.tokens.size(0)));
  for (size_t s = 0; s < batch.segments.size(); ++s)
    std::fill_n(owners.begin() + batch.segments[s].begin, batch.segments[s].length, batch.owners[s]);
  return at::tensor(owners, at::kLong).to(batch.tokens.device());
}

}  // namespace

Tensor predicting_states(const CausalLm& model, const PackedBatch& batch, const Dropout& dropout) {
  Dropout keyed = dropout;
  if (dropout.share > 0) keyed.sequences = owner_of_tokens(batch), keyed.positions = batch.positions;
  return packed_hidden_states(model, batch.tokens, batch.positions, batch.segments, keyed)
      .index_select(0, batch.rows);
}

TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior) {
  const at::NoGradGuard no_grad;
  return model.lm_head(temperature).statistics(predicting_states(model, batch), batch.targets, behavior);
}

void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, const UpdatePass& pass, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior) {
  const auto scaled = [&](const TokenStats& stats, int64_t begin, int64_t end) {
    HeadCoefficients result = coefficients(stats, begin, end);
    result.coefficient = result.coefficient * pass.loss_scale;
    if (result.entropy_coefficient.defined())
      result.entropy_coefficient = result.entropy_coefficient * pass.loss_scale;
    return result;
  };
  const Tensor hidden = predicting_states(model, batch, pass.dropout);
  Tensor gradient = model.lm_head(pass.temperature).backward(hidden.detach(), batch.targets, scope, scaled, behavior);
  if (pass.also) gradient.add_(pass.also(batch, hidden.detach()), pass.loss_scale);
  hidden.backward(gradient.to(hidden.scalar_type()));
}

}  // namespace keel
