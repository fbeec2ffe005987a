#include "keel/model/network/linear.h"

#include <ATen/ATen.h>

namespace keel {

Tensor Linear::operator()(const Tensor& x) const {
  if (panels.defined()) return bias.defined() ? panels(x).add_(bias) : panels(x);
  const Tensor y = bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
  return lora_a.defined() ? y + at::linear(at::linear(x, lora_a), lora_b) * lora_scale : y;
}

Tensor Linear::merged_weight() const {
  return lora_a.defined() ? at::addmm(weight, lora_b, lora_a, 1, lora_scale) : weight;
}

}  // namespace keel
