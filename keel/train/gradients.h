#pragma once

#include "keel/model/causal_lm.h"
#include "keel/model/lm_head.h"
#include "keel/train/packing.h"

namespace keel {

/// The statistics of every target of the batch, without gradients.
TokenStats token_statistics(const CausalLm& model, const PackedBatch& batch, double temperature,
                            const BehaviorRows& behavior = {});

/// Adds the batch's gradients to the parameters': forward through the body, coefficients from the head's statistics,
/// back through the head and then, by autograd, through the body.
void accumulate_gradients(const CausalLm& model, const PackedBatch& batch, double temperature, Scope scope,
                          const CoefficientFunction& coefficients, const BehaviorRows& behavior = {});

}  // namespace keel
