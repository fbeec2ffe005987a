#pragma once

#include <functional>

#include "keel/model/network/causal_lm.h"
#include "keel/ops/lm_head.h"
#include "keel/train/update/packing.h"

namespace keel {

/// The hidden states [M, H] that predict the batch's targets, with autograd. Where the network has a dropout, a token's
/// noise is that of its prompt or completion, so that it is the same however batches are cut.
Tensor predicting_states(const CausalLm& model, const PackedBatch& batch);

/// Another loss on the same hidden states [M, H]: adds to its own parameters' gradients and returns d loss / d hidden.
using HiddenLoss = std::function<Tensor(const PackedBatch& batch, const Tensor& hidden)>;

/// The statistics of every target of the batch, without gradients.
TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior = {});

/// Adds the batch's gradients to the parameters': forward through the body, coefficients from the head's statistics,
/// back through the head and then, by autograd, through the body; `also` is one more loss on the body. The gradients
/// are those of the loss times `loss_scale`.
void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, double temperature, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior = {},
                          const HiddenLoss& also = {}, double loss_scale = 1);

}  // namespace keel
