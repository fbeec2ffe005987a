#include "keel/model/network/value_head.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

/// The parameter's gradient, made where there is none yet.
Tensor& gradient_of(const Tensor& parameter) {
  Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined()) gradient = at::zeros_like(parameter);
  return gradient;
}

}  // namespace

ValueHead ValueHead::zero(int64_t hidden_size, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  return ValueHead(at::zeros({1, hidden_size}, options), at::zeros({1}, options));
}

ValueHead::ValueHead(Tensor weight, Tensor bias) : weight_(std::move(weight)), bias_(std::move(bias)) {
  weight_.requires_grad_();
  bias_.requires_grad_();
}

Tensor ValueHead::values(const Tensor& hidden) const {
  const at::NoGradGuard no_grad;
  return at::linear(hidden.to(at::kFloat), weight_, bias_).squeeze(1);
}

Tensor ValueHead::backward(const Tensor& hidden, const Tensor& gradient) const {
  const at::NoGradGuard no_grad;
  gradient_of(weight_).addmm_(gradient.unsqueeze(0), hidden.to(at::kFloat));
  gradient_of(bias_).add_(gradient.sum());
  return gradient.unsqueeze(1) * weight_;
}

std::vector<NamedTensor> ValueHead::parameters() const { return {{"score.weight", weight_}, {"score.bias", bias_}}; }

}  // namespace keel
