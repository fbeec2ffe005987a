#include "keel/train/gradients.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

/// The hidden states [M, H] that predict the batch's targets.
Tensor predicting_states(const CausalLm& model, const PackedBatch& batch) {
  return packed_hidden_states(model, batch.tokens, batch.positions, batch.segments).index_select(0, batch.rows);
}

}  // namespace

TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior) {
  const at::NoGradGuard no_grad;
  return model.lm_head(temperature).statistics(predicting_states(model, batch), batch.targets, behavior);
}

void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, double temperature, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior) {
  const Tensor hidden = predicting_states(model, batch);
  const Tensor gradient =
      model.lm_head(temperature).backward(hidden.detach(), batch.targets, scope, coefficients, behavior);
  hidden.backward(gradient);
}

}  // namespace keel
