#include "keel/model/network/value_head.h"

#include <ATen/ATen.h>

namespace keel {

ValueHead ValueHead::zero(int64_t hidden_size, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  return ValueHead(at::zeros({1, hidden_size}, options), at::zeros({1}, options));
}

Tensor ValueHead::values(const Tensor& hidden) const {
  const at::NoGradGuard no_grad;
  return at::linear(hidden.to(at::kFloat), weight_.value(), bias_.value()).squeeze(1);
}

Tensor ValueHead::backward(const Tensor& hidden, const Tensor& gradient) const {
  const at::NoGradGuard no_grad;
  if (const auto sink = weight_.sink()) sink->add_product(gradient.unsqueeze(0), hidden.to(at::kFloat));
  if (const auto sink = bias_.sink()) sink->add(gradient.sum());
  return gradient.unsqueeze(1) * weight_.value();
}

}  // namespace keel
