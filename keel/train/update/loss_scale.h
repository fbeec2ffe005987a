#pragma once

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Dynamic loss scaling (arXiv 1710.03740). float16 has nothing between 0 and 6e-8, so the gradients of a loss times a
/// power of two are computed, of one as large as can be without an overflow.
class LossScale {
 public:
  LossScale();

  double value() const;

  /// After an update that was skipped because a gradient was not finite. False where the scale is 1, so that it is not
  /// to blame.
  bool halve();

  /// After an update with finite gradients: enough of them in a row double the scale.
  void count_finite();

  /// The scale and how many updates in a row were finite, [2] float32; what is copied into it holds.
  const Tensor& state() const { return state_; }

 private:
  Tensor state_;
};

}  // namespace keel
