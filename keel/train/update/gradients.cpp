#include "keel/train/update/gradients.h"

#include "keel/model/network/packed_forward.h"

#include <ATen/ATen.h>

namespace keel {

Tensor predicting_states(const CausalLm& model, const PackedBatch& batch) {
  return packed_hidden_states(model, batch.tokens, batch.positions, batch.segments).index_select(0, batch.rows);
}

TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior) {
  const at::NoGradGuard no_grad;
  return model.lm_head(temperature).statistics(predicting_states(model, batch), batch.targets, behavior);
}

void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, double temperature, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior,
                          const HiddenLoss& also) {
  const Tensor hidden = predicting_states(model, batch);
  Tensor gradient = model.lm_head(temperature).backward(hidden.detach(), batch.targets, scope, coefficients, behavior);
  if (also) gradient.add_(also(batch, hidden.detach()));
  hidden.backward(gradient);
}

}  // namespace keel
