#pragma once

#include <functional>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// What a network carries from layer to layer: the sum of all that they have added, and its norm, which the next sees.
struct Residual {
  Tensor sum, normed;
};

/// What a layer makes of it. A copy must hold, or share, everything that it needs.
using Layer = std::function<Residual(const Residual& in)>;

/// The layer's result, of which only the input is kept for the backward pass, which calls the layer again (activation
/// checkpointing, arXiv 1604.06174). On a CPU its gradients are those of the plain
/// call, to the bit.
Residual recomputed(const Layer& layer, const Residual& in);

}  // namespace keel
