#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Dropout of one layer in a training pass. The random numbers are counter-based, so a recomputed pass drops the same
/// elements, also in other batches or in another process.
struct Dropout {
  double probability = 0;  // of dropping an element
  uint64_t seed = 0, update = 0, linear_layer = 0;
  Tensor sequences = {}, positions = {};  // [N] int64: each row's sequence, and its position there
};

/// Sets elements of x [N, width] to 0 with this probability p and divides the others by 1 - p; differentiable.
Tensor apply_dropout(const Tensor& x, const Dropout& dropout);

}  // namespace keel
