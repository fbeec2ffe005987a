#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Arena for the packed weights of a network. Its blocks grow, because the kernel backs only large allocations with
/// huge pages. A block lives as long as a weight in it.
class PackedWeightMemory {
 public:
  /// Allocates an uninitialised float32 tensor.
  Tensor allocate(at::IntArrayRef shape);

 private:
  Tensor block_;
  int64_t used_ = 0;  // elements of block_
};

/// A packed copy of the weight [out, in] of a linear layer, or of several layers with the same input, for GEMMs with
/// few rows. The layout is panels of kPanel outputs. For float32 on a CPU. A copy does not follow later updates. The
/// bits of a row's result do not depend on other rows.
class PackedWeight {
 public:
  PackedWeight() = default;
  explicit PackedWeight(const Tensor& weight) : PackedWeight(std::vector<Tensor>{weight}) {}
  explicit PackedWeight(const std::vector<Tensor>& weights) {
    PackedWeightMemory memory;
    *this = PackedWeight(weights, memory);
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
