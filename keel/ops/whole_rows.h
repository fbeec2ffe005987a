#pragma once

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Rows that may be parts of longer ones, [N, width].
inline Tensor whole_rows(const Tensor& x) {
  return x.dim() == 2 && x.stride(1) == 1 ? x : x.contiguous().view({-1, x.size(-1)});
}

/// Rows [N, heads, D] whose heads follow each other, copied where they do not; the rows may be parts of longer ones.
inline Tensor whole_heads(const Tensor& x) { return x.stride(2) == 1 && x.stride(1) == x.size(2) ? x : x.contiguous(); }

}  // namespace keel
