#pragma once

#include "keel/core/tensor/tensor.h"

namespace keel {

/// sum = x + added and its norm, which every layer goes on with.
struct NormedSum {
  Tensor sum, normed;
};

/// cos and sin of every position's angles, [N, D / 2] each, float32.
struct Angles {
  Tensor cos, sin;
};

}  // namespace keel
