#pragma once

#include <vector>

#include "keel/model/network/causal_lm.h"

namespace keel {

/// From hidden states to values: w h + b, one number for each state, in float32. Like LmHead it has no autograd:
/// gradients are written down.
class ValueHead {
 public:
  /// Everything at 0, so that every value starts at 0: before it has learned anything a critic must not mislead.
  static ValueHead zero(int64_t hidden_size, at::Device device);

  /// `weight` [1, H], `bias` [1], float32; both are trained.
  ValueHead(Tensor weight, Tensor bias);

  /// The values [M] of hidden states [M, H], without gradients.
  Tensor values(const Tensor& hidden) const;

  /// Adds to the gradients of weight and bias, given d loss / d values [M], and returns d loss / d hidden [M, H].
  Tensor backward(const Tensor& hidden, const Tensor& gradient) const;

  /// By the names of Hugging Face's token classifiers: score.weight, score.bias.
  std::vector<NamedTensor> parameters() const;

 private:
  Tensor weight_, bias_;
};

}  // namespace keel
