#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Which numbers of the rows of tokens a layer leaves out in a training pass. The noise is counter-based, and so has no
/// state: a pass that is computed again, in other batches or in another process, leaves out the same.
struct Dropout {
  double probability = 0;  // that a number is dropped
  uint64_t seed = 0, update = 0, layer = 0;
  Tensor sequences = {}, positions = {};  // [N] int64: what sequence each row's token is of, and where it stands there
};

/// The rows [N, width] with that share of their numbers set to 0 and the others divided by 1 - share, differentiable.
Tensor apply_dropout(const Tensor& x, const Dropout& dropout);

}  // namespace keel
