#pragma once

#include "keel/core/tensor/tensor.h"

namespace keel {

/// What PPO's value loss says about each token; nothing here carries a gradient.
struct ValueLoss {
  Tensor loss;      // [N]
  Tensor gradient;  // [N] d loss / d value
  Tensor clipped;   // [N] bool: the value has gone its way for this batch, and its gradient is 0
};

/// PPO's clipped value loss, as TRL and verl write it: 1/2 max((v - R)^2, (clip(v, old - c, old + c) - R)^2), where old
/// is the value when the advantages were computed and R the return; an infinite c does not clip.
ValueLoss value_loss(const Tensor& values, const Tensor& old_values, const Tensor& returns, double clip);

}  // namespace keel
