#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Memory for the panels of a network's weights, taken in blocks that grow: under large ones the pages can be large too,
/// which they hardly are under a weight of a few megabytes alone. A block lives as long as a weight in it.
class PackedWeightMemory {
 public:
  /// Float32 of this shape, without values.
  Tensor take(at::IntArrayRef shape);

 private:
  Tensor block_;
  int64_t used_ = 0;  // elements of the block
};

/// The weight [out, in] of a linear layer, or of several with one input, laid out for products with few rows at a time;
/// a copy, so it knows nothing of later updates. For float32 on a CPU. A row's product has the same bits whatever other
/// rows there are.
class PackedWeight {
 public:
  PackedWeight() = default;
  explicit PackedWeight(const Tensor& weight) : PackedWeight(std::vector<Tensor>{weight}) {}
  explicit PackedWeight(const std::vector<Tensor>& weights) {
    PackedWeightMemory own;
    *this = PackedWeight(weights, own);
  }
  PackedWeight(const std::vector<Tensor>& weights, PackedWeightMemory& memory);

  bool defined() const { return panels_.defined(); }
  /// x W^T: [N, in] to [N, out].
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor panels_;  // [panels, in, kPanel]
  int64_t outputs_ = 0, inputs_ = 0;
};

}  // namespace keel
