#pragma once

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The value loss of each token; none of these tensors carries an autograd graph.
struct ValueLoss {
  Tensor loss;      // [N]
  Tensor gradient;  // [N] d loss / d value
  Tensor clipped;   // [N] bool: the value left the clip range, so its gradient is 0
};

/// PPO's clipped value loss, as TRL and verl write it: 1/2 max((v - R)^2, (clip(v, old - c, old + c) - R)^2), where old
/// is the value at advantage computation, R the return, and c the clip range (infinite: no clipping).
ValueLoss value_loss(const Tensor& values, const Tensor& old_values, const Tensor& returns, double clip);

}  // namespace keel
