#include "keel/model/network/linear.h"

#include <ATen/ATen.h>

#include "keel/ops/layer_ops.h"
#include "keel/ops/ordered_linear.h"

namespace keel {
namespace {

/// The tensors along their first dimension as one: where they stand one after the other already, without a copy.
Tensor as_one(const std::vector<Tensor>& parts) {
  int64_t rows = 0;
  bool adjacent = true;
  for (const Tensor& part : parts) {
    adjacent = adjacent && part.is_contiguous() && part.storage().data() == parts[0].storage().data() &&
               part.storage_offset() == parts[0].storage_offset() + rows * parts[0].stride(0);
    rows += part.size(0);
  }
  if (!adjacent) return at::cat(parts);
  std::vector<int64_t> sizes = parts[0].sizes().vec();
  sizes[0] = rows;
  return parts[0].as_strided(sizes, parts[0].strides());
}

}  // namespace

Tensor Linear::operator()(const Tensor& input) const {
  const Tensor x = round_input ? round_input(input) : input;
  const Tensor adapted = lora_a.defined() && dropout.share > 0 ? dropped_out(x, dropout) : x;
  if (!bitwise && !panels.defined()) {
    const Tensor y = bias.defined() || !at::GradMode::is_enabled()
                         ? linear(x, weight.forward(), bias.defined() ? bias.forward() : Tensor())
                         : trained_linear(x, weight);
    return lora_a.defined() ? y + at::linear(at::linear(adapted, lora_a.forward()), lora_b.forward()) * lora_scale : y;
  }
  const auto product = [](const Tensor& rows, const Parameter& of, const PanelWeight& laid_out) {
    return laid_out.defined() ? laid_out(rows) : trained_linear(rows, of, /*ordered=*/true);
  };
  Tensor y = product(x, weight, panels);
  if (bias.defined()) y = y + bias.forward();
  return lora_a.defined() ? y + product(product(adapted, lora_a, panels_a), lora_b, panels_b) * lora_scale : y;
}

void Linear::make_panels(PanelMemory& memory) {
  panels = PanelWeight({weight.compute}, memory);
  if (!lora_a.defined()) return;
  panels_a = PanelWeight({lora_a.compute}, memory);
  panels_b = PanelWeight({lora_b.compute}, memory);
}

JoinedLinear::JoinedLinear(const std::vector<const Linear*>& layers, PanelMemory& memory)
    : bitwise_(layers[0]->bitwise), round_input_(layers[0]->round_input) {
  std::vector<Tensor> weights, biases;
  for (const Linear* layer : layers) {
    weights.push_back(layer->weight.compute.detach());
    if (layer->bias.defined()) biases.push_back(layer->bias.compute.detach());
  }
  if (weights[0].is_cpu() && weights[0].scalar_type() == at::kFloat)
    panels_ = PanelWeight(weights, memory);
  else
    weight_ = as_one(weights);
  if (!biases.empty()) bias_ = as_one(biases);
}

Tensor JoinedLinear::operator()(const Tensor& input) const {
  const Tensor x = round_input_ ? round_input_(input) : input;
  if (weight_.defined() && !bitwise_) return linear(x, weight_, bias_);
  Tensor y = weight_.defined() ? ordered_linear(x, weight_) : panels_(x);
  if (bias_.defined()) y.add_(bias_);
  return y;
}

Tensor JoinedLinear::gated(Activation activation, const Tensor& input) const {
  if (weight_.defined() && !bitwise_)
    return gated_linear(activation, round_input_ ? round_input_(input) : input, weight_, bias_);
  const std::vector<Tensor> both = (*this)(input).chunk(2, 1);
  return keel::gated(activation, both[0], both[1]);
}

void join(const std::vector<Linear*>& layers) {
  const auto join_parts = [&](Parameter Linear::*which) {
    std::vector<Tensor> parts;
    for (Linear* layer : layers)
      if (const Parameter& part = layer->*which; part.is_rounded()) parts.push_back(part.compute);
    if (parts.size() != layers.size()) return;
    const Tensor all = at::cat(parts);
    int64_t row = 0;
    for (Linear* layer : layers) {
      Tensor& part = (layer->*which).compute;
      const int64_t rows = part.size(0);
      part = all.narrow(0, row, rows);
      row += rows;
    }
  };
  join_parts(&Linear::weight);
  join_parts(&Linear::bias);
}

Tensor Linear::merged_weight() const {
  const auto wide = [](const Parameter& x) { return x.master.to(at::kFloat); };
  return lora_a.defined() ? at::addmm(wide(weight), wide(lora_b), wide(lora_a), 1, lora_scale) : wide(weight);
}

}  // namespace keel
