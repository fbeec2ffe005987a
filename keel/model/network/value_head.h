#pragma once

#include <vector>

#include "keel/ops/weight.h"

namespace keel {

/// From hidden states to values: w h + b, one number for each state, in float32. Like LmHead it computes its gradients
/// without autograd.
class ValueHead {
 public:
  /// Everything at 0, so that every value starts at 0: an untrained critic must not mislead.
  static ValueHead zero(int64_t hidden_size, at::Device device);

  /// `weight` [1, H], `bias` [1], float32.
  ValueHead(Tensor weight, Tensor bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

  /// The values [M] of hidden states [M, H], without gradients.
  Tensor values(const Tensor& hidden) const;

  /// Adds to the sinks of weight and bias, given d loss / d values [M], and returns d loss / d hidden [M, H].
  Tensor backward(const Tensor& hidden, const Tensor& gradient) const;

  /// By the names of Hugging Face's token classifiers: score.weight, score.bias.
  std::vector<NamedWeight> weights() const { return {{"score.weight", weight_}, {"score.bias", bias_}}; }

 private:
  Weight weight_, bias_;
};

}  // namespace keel
