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

/// The float32 master copies of the trainable weights, which the optimizer updates and a checkpoint stores. A float32
/// weight is its own master. Copies of this object share the tensors; a snapshot does not.
class MasterWeights {
 public:
  MasterWeights() = default;
  /// Takes the current values as masters. They share memory until set_value() gives a weight its narrow copy.
  explicit MasterWeights(std::vector<NamedWeight> weights);

  const std::vector<NamedWeight>& weights() const { return weights_; }
  /// The masters by name, in the order of weights().
  std::vector<NamedTensor> tensors() const;
  /// The master of a weight; for a weight that is not trained, its own value.
  const Tensor& value_of(const Weight& weight) const;
  std::vector<NamedTensor> value_of(const std::vector<NamedWeight>& weights) const;

  /// Writes the rounded masters to the weights.
  void update_weights() const;
  /// Returns cloned masters for `copies` of the weights, in the same order.
  MasterWeights clone_for(std::vector<NamedWeight> copies) const;

 private:
  std::vector<NamedWeight> weights_;
  std::vector<Tensor> masters_;  // one per weight
};

}  // namespace keel
