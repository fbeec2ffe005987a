#pragma once

#include "keel/core/tensor.h"

namespace keel {

/// A linear layer, with a low-rank adapter where one was added (LoRA, arXiv 2106.09685): W x + b + scale B A x.
struct Linear {
  Tensor weight, bias;    // [out, in], [out] or undefined
  Tensor lora_a, lora_b;  // [rank, in], [out, rank]; undefined: no adapter
  double lora_scale = 0;

  Tensor operator()(const Tensor& x) const;
  /// W + scale B A.
  Tensor merged_weight() const;
};

}  // namespace keel
