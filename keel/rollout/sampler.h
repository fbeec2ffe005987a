#pragma once

#include "keel/core/tensor.h"

namespace keel {

/// One drawn token per row.
struct Drawn {
  Tensor tokens;  // [S] int64
  Tensor logp;    // [S] float32, of the tempered distribution (of the untempered one at temperature 0)
};

/// Draws a token from each row of logits [S, V] float32. `rollout_ids` and `positions` [S] int64, on the logits'
/// device, key the noise; they are interpreted as unsigned.
Drawn sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
             const Tensor& positions);

}  // namespace keel
