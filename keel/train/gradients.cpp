#include "keel/train/gradients.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

/// The hidden states [M, H] that predict the batch's targets.
Tensor predicting_states(const CausalLm& model, const PackedBatch& batch) {
  const PackedAttention attention(batch.segments, batch.tokens.size(0), model.device());
  const Tensor hidden = model.forward(batch.tokens, batch.positions,
                                      [&](int64_t, const Tensor& query, const Tensor& key, const Tensor& value) {
                                        return attention(query, key, value);
                                      });
  return hidden.index_select(0, batch.rows);
}

}  // namespace

TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior) {
  const at::NoGradGuard no_grad;
  return LmHead(model.head(), temperature).statistics(predicting_states(model, batch), batch.targets, behavior);
}

void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, double temperature, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior) {
  const Tensor hidden = predicting_states(model, batch);
  const Tensor gradient =
      LmHead(model.head(), temperature).backward(hidden.detach(), batch.targets, scope, coefficients, behavior);
  hidden.backward(gradient);
}

}  // namespace keel
