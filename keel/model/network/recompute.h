#pragma once

#include <functional>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The residual stream between layers: the sum of all layer outputs, and its normalised value for the next layer.
struct Residual {
  Tensor sum, normed;
};

/// Computes a layer. The function must own, or share ownership of, everything that it uses.
using LayerFunction = std::function<Residual(const Residual& in)>;

/// Activation checkpointing (arXiv 1604.06174): computes the layer, stores only its input, and calls the layer again in
/// the backward pass. On a CPU the gradients are bitwise equal to those of a plain call.
Residual checkpoint_layer(const LayerFunction& layer, const Residual& in);

}  // namespace keel
