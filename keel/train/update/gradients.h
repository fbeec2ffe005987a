#pragma once

#include <functional>

#include "keel/model/network/causal_lm.h"
#include "keel/ops/lm_head.h"
#include "keel/train/update/packing.h"

namespace keel {

/// The hidden states [M, H] that predict the batch's targets, with autograd. The noise of a dropout is keyed by a
/// token's prompt or completion, so that it does not depend on how batches are cut.
Tensor target_hidden_states(const CausalLm& model, const PackedBatch& batch, const Dropout& dropout = {});

/// Another loss on the same hidden states [M, H]: adds to the sinks of its own weights and returns d loss / d hidden.
using AuxLoss = std::function<Tensor(const PackedBatch& batch, const Tensor& hidden)>;

/// The statistics of every target of the batch, without gradients.
TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior = {});

/// How the passes of an update are computed.
struct UpdateOptions {
  double temperature = 1;
  Dropout dropout = {};   // of the adapters' inputs
  double loss_scale = 1;  // multiplies the gradients
  AuxLoss aux_loss = {};   // one more loss on the body
};

/// Adds the batch's gradients to the weights' sinks: forward through the body, coefficients from the head's statistics,
/// back through the head and then, by autograd, through the body.
void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, const UpdateOptions& pass, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior = {});

}  // namespace keel
