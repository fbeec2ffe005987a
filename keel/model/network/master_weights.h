#pragma once

#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/weight.h"

namespace keel {

struct NamedTensor {
  std::string name;  // as in a Hugging Face checkpoint
  Tensor value;
};

/// The float32 masters of the weights that are trained: what an update changes and a checkpoint holds. A weight that
/// computes in float32 is its own master. Copies share the tensors. The optimizer that is given a copy changes them; a
/// snapshot has tensors of its own.
class MasterWeights {
 public:
  MasterWeights() = default;
  /// The masters are the weights' numbers as they are now, and shared with them until these are rounded.
  explicit MasterWeights(std::vector<NamedWeight> weights);

  const std::vector<NamedWeight>& weights() const { return weights_; }
  /// By name, in the order of weights().
  std::vector<NamedTensor> tensors() const;
  /// The master of the weight, or the numbers of one that is not trained.
  const Tensor& value_of(const Weight& weight) const;
  std::vector<NamedTensor> value_of(const std::vector<NamedWeight>& weights) const;

  /// Rounds the masters to the weights.
  void update_weights() const;
  /// Copies of the masters, for copies of the weights in the same order.
  MasterWeights clone_for(std::vector<NamedWeight> copies) const;

 private:
  std::vector<NamedWeight> weights_;
  std::vector<Tensor> masters_;  // of each
};

}  // namespace keel
