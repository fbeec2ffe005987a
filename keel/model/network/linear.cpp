#include "keel/model/network/linear.h"

#include <ATen/ATen.h>

namespace keel {

Tensor Linear::operator()(const Tensor& input) const {
  const Tensor x = round_input ? round_input(input) : input;
  if (!bitwise && !panels.defined()) {
    const Tensor w = weight.forward();
    const Tensor y = bias.defined() ? at::linear(x, w, bias.forward()) : at::linear(x, w);
    return lora_a.defined() ? y + at::linear(at::linear(x, lora_a.forward()), lora_b.forward()) * lora_scale : y;
  }
  const auto product = [](const Tensor& rows, const Parameter& of, const PanelWeight& laid_out) {
    return laid_out.defined() ? laid_out(rows) : panel_linear(rows, of.forward());
  };
  Tensor y = product(x, weight, panels);
  if (bias.defined()) y = y + bias.forward();
  return lora_a.defined() ? y + product(product(x, lora_a, panels_a), lora_b, panels_b) * lora_scale : y;
}

void Linear::make_panels() {
  panels = PanelWeight(weight.compute);
  if (!lora_a.defined()) return;
  panels_a = PanelWeight(lora_a.compute);
  panels_b = PanelWeight(lora_b.compute);
}

JoinedLinear::JoinedLinear(const std::vector<const Linear*>& layers) : round_input_(layers[0]->round_input) {
  std::vector<Tensor> weights, biases;
  for (const Linear* layer : layers) {
    weights.push_back(layer->weight.compute);
    if (layer->bias.defined()) biases.push_back(layer->bias.compute);
    widths_.push_back(layer->weight.compute.size(0));
  }
  const at::NoGradGuard no_grad;
  panels_ = PanelWeight(at::cat(weights));
  if (!biases.empty()) bias_ = at::cat(biases);
}

std::vector<Tensor> JoinedLinear::operator()(const Tensor& input) const {
  Tensor y = panels_(round_input_ ? round_input_(input) : input);
  if (bias_.defined()) y.add_(bias_);
  return y.split_with_sizes(widths_, 1);
}

Tensor Linear::merged_weight() const {
  const auto wide = [](const Parameter& x) { return x.master.to(at::kFloat); };
  return lora_a.defined() ? at::addmm(wide(weight), wide(lora_b), wide(lora_a), 1, lora_scale) : wide(weight);
}

}  // namespace keel
