#pragma once

#include <vector>

#include "keel/ops/weight.h"

namespace keel {

/// Maps hidden states to values, w h + b in float32. Like LmHead it computes gradients without autograd.
class ValueHead {
 public:
  /// A head with zero weight and bias, so that an untrained critic predicts 0.
  static ValueHead zero(int64_t hidden_size, at::Device device);

  /// `weight` [1, H], `bias` [1], float32.
  ValueHead(Tensor weight, Tensor bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

  /// The values [M] of hidden states [M, H], without gradients.
  Tensor values(const Tensor& hidden) const;

  /// Adds the gradients of weight and bias to their sinks. Maps d loss / d values [M] to d loss / d hidden [M, H].
  Tensor backward(const Tensor& hidden, const Tensor& gradient) const;

  /// The weights with the names of Hugging Face's token classifiers: score.weight, score.bias.
  std::vector<NamedWeight> weights() const { return {{"score.weight", weight_}, {"score.bias", bias_}}; }

 private:
  Weight weight_, bias_;
};

}  // namespace keel
