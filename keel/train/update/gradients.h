#pragma once

#include <functional>

#include "keel/model/network/causal_lm.h"
#include "keel/ops/lm_head.h"
#include "keel/train/update/packing.h"

namespace keel {

/// The hidden states [M, H] that predict the batch's targets, with autograd. Dropout noise is keyed by the prompt or
/// completion of a token, so it does not depend on micro-batches.
Tensor target_hidden_states(const CausalLm& model, const PackedBatch& batch, const Dropout& dropout = {});

/// An auxiliary loss on the hidden states [M, H]: accumulates the gradients of its own weights, returns d loss / d
/// hidden.
using AuxLoss = std::function<Tensor(const PackedBatch& batch, const Tensor& hidden)>;

/// The LM head's statistics of every target of the batch, without gradients.
TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior = {});

/// Options of the forward and backward passes of an update.
struct UpdateOptions {
  double temperature = 1;
  Dropout dropout = {};   // on the adapters' inputs
  double loss_scale = 1;  // multiplies the gradients
  AuxLoss aux_loss = {};  // optional
};

/// Accumulates the batch's gradients in the weights' sinks: forward through the backbone, coefficients from the LM
/// head's statistics, backward through the head, then by autograd through the backbone.
void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, const UpdateOptions& options, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior = {});

}  // namespace keel
