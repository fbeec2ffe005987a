#include "keel/model/network/linear.h"

#include <ATen/ATen.h>

#include "keel/ops/layer_ops.h"
#include "keel/ops/deterministic_linear.h"

namespace keel {
namespace {

/// Concatenates the tensors along their first dimension; tensors that are adjacent in memory are not copied.
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

std::vector<Tensor> numbers_of(const std::vector<const Linear*>& layers, Weight Linear::*which) {
  std::vector<Tensor> numbers;
  for (const Linear* layer : layers)
    if ((layer->*which).defined()) numbers.push_back((layer->*which).value());
  return numbers;
}

}  // namespace

Tensor Linear::operator()(const Tensor& input, bool deterministic, const Dropout& dropout) const {
  // The order of these two is that in which the backward pass sums the input's gradients.
  const Tensor x = lora_a.defined() && dropout.probability > 0 ? apply_dropout(input, dropout) : input;
  const Tensor y = weight.linear(input, bias, deterministic);
  if (!lora_a.defined()) return y;
  const Tensor added = deterministic ? lora_b.linear(lora_a.linear(x, {}, deterministic), {}, deterministic)
                               : at::linear(at::linear(x, lora_a.forward()), lora_b.forward());
  return y + added * lora_scale;
}

Tensor Linear::merged_weight(const MasterWeights& masters) const {
  const auto wide = [&](const Weight& x) { return masters.value_of(x).to(at::kFloat); };
  return lora_a.defined() ? at::addmm(wide(weight), wide(lora_b), wide(lora_a), 1, lora_scale) : wide(weight);
}

SamplerLinear::SamplerLinear(const Linear& layer, const SamplingProducts& products, PackedWeightMemory& memory)
    : layer_(layer), products_(products) {
  if (!products.packed) return;
  packed_ = PackedWeight({layer.weight.value()}, memory);
  if (!layer.lora_a.defined()) return;
  packed_a_ = PackedWeight({layer.lora_a.value()}, memory);
  packed_b_ = PackedWeight({layer.lora_b.value()}, memory);
}

Tensor SamplerLinear::operator()(const Tensor& input) const {
  const Tensor x = products_.round_input ? products_.round_input(input) : input;
  if (!products_.packed) return layer_(x, products_.deterministic);
  Tensor y = packed_(x);
  if (layer_.bias.defined()) y = y + layer_.bias.value();
  return packed_a_.defined() ? y + packed_b_(packed_a_(x)) * layer_.lora_scale : y;
}

FusedLinear::FusedLinear(const std::vector<const Linear*>& layers, const SamplingProducts& products,
                         PackedWeightMemory& memory)
    : products_(products) {
  const std::vector<Tensor> weights = numbers_of(layers, &Linear::weight), biases = numbers_of(layers, &Linear::bias);
  if (products.packed)
    packed_ = PackedWeight(weights, memory);
  else
    weight_ = as_one(weights);
  if (!biases.empty()) bias_ = as_one(biases);
}

Tensor FusedLinear::operator()(const Tensor& input) const {
  const Tensor x = products_.round_input ? products_.round_input(input) : input;
  if (!products_.packed && !products_.deterministic) return linear(x, weight_, bias_);
  Tensor y = products_.packed ? packed_(x) : deterministic_linear(x, weight_);
  if (bias_.defined()) y.add_(bias_);
  return y;
}

Tensor FusedLinear::gated(Activation activation, const Tensor& input) const {
  if (!products_.packed && !products_.deterministic)
    return gated_linear(activation, products_.round_input ? products_.round_input(input) : input, weight_, bias_);
  const std::vector<Tensor> both = (*this)(input).chunk(2, 1);
  return keel::gated(activation, both[0], both[1]);
}

void join(const std::vector<const Linear*>& layers) {
  for (Weight Linear::*which : {&Linear::weight, &Linear::bias}) {
    const std::vector<Tensor> parts = numbers_of(layers, which);
    if (parts.size() != layers.size()) continue;
    const Tensor all = at::cat(parts);
    int64_t row = 0;
    for (const Linear* layer : layers) {
      const int64_t rows = (layer->*which).shape()[0];
      (layer->*which).set_value(all.narrow(0, row, rows));
      row += rows;
    }
  }
}

}  // namespace keel
