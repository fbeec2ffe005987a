#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/ops/panel_linear.h"

namespace keel {

/// A low-rank adapter: scale B A is added to a weight.
struct LowRank {
  Tensor a, b;  // [rank, in], [out, rank]
  double scale = 0;
};

/// A linear layer, with a low-rank adapter where one was added (LoRA, arXiv 2106.09685): W x + b + scale B A x.
struct Linear {
  Tensor weight, bias;    // [out, in], [out] or undefined
  Tensor lora_a, lora_b;  // [rank, in], [out, rank]; undefined: no adapter
  double lora_scale = 0;
  PanelWeight panels = {};  // the weight again where it only samples, on a CPU

  Tensor operator()(const Tensor& x) const;
  /// W + scale B A.
  Tensor merged_weight() const;
};

}  // namespace keel
