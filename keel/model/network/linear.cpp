#include "keel/model/network/linear.h"

#include <ATen/ATen.h>

#include "keel/ops/deterministic_linear.h"
#include "keel/ops/layer_ops.h"

namespace keel {
namespace {

/// Concatenates tensors along the first dimension, without a copy if they are adjacent in memory.
Tensor concatenate(const std::vector<Tensor>& parts) {
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

std::vector<Tensor> collect(const std::vector<const Linear*>& layers, Weight Linear::*member) {
  std::vector<Tensor> tensors;
  for (const Linear* layer : layers)
    if ((layer->*member).defined()) tensors.push_back((layer->*member).value());
  return tensors;
}

}  // namespace

Tensor Linear::operator()(const Tensor& input, bool deterministic, const Dropout& dropout) const {
  // The order of these two lines fixes the order in which autograd sums the gradients of the input.
  const Tensor x = lora_a.defined() && dropout.probability > 0 ? apply_dropout(input, dropout) : input;
  const Tensor y = weight.linear(input, bias, deterministic);
  if (!lora_a.defined()) return y;
  return y + lora_b.linear(lora_a.linear(x, {}, deterministic), {}, deterministic) * lora_scale;
}

Tensor Linear::merged_weight(const MasterWeights& masters) const {
  const auto to_float = [&](const Weight& x) { return masters.value_of(x).to(at::kFloat); };
  return lora_a.defined() ? at::addmm(to_float(weight), to_float(lora_b), to_float(lora_a), 1, lora_scale)
                          : to_float(weight);
}

SamplerLinear::SamplerLinear(const Linear& layer, const SamplingMatmulOptions& options, PackedWeightMemory& memory)
    : layer_(layer), options_(options) {
  if (!options.pack_weights) return;
  packed_ = PackedWeight({layer.weight.value()}, memory);
  if (!layer.lora_a.defined()) return;
  packed_a_ = PackedWeight({layer.lora_a.value()}, memory);
  packed_b_ = PackedWeight({layer.lora_b.value()}, memory);
}

Tensor SamplerLinear::operator()(const Tensor& input) const {
  const Tensor x = options_.round_input ? options_.round_input(input) : input;
  if (!options_.pack_weights) return layer_(x, options_.deterministic);
  Tensor y = packed_(x);
  if (layer_.bias.defined()) y = y + layer_.bias.value();
  return packed_a_.defined() ? y + packed_b_(packed_a_(x)) * layer_.lora_scale : y;
}

FusedLinear::FusedLinear(const std::vector<const Linear*>& layers, const SamplingMatmulOptions& options,
                         PackedWeightMemory& memory)
    : options_(options) {
  const std::vector<Tensor> weights = collect(layers, &Linear::weight), biases = collect(layers, &Linear::bias);
  if (options.pack_weights)
    packed_ = PackedWeight(weights, memory);
  else
    weight_ = concatenate(weights);
  if (!biases.empty()) bias_ = concatenate(biases);
}

Tensor FusedLinear::operator()(const Tensor& input) const {
  const Tensor x = options_.round_input ? options_.round_input(input) : input;
  if (!options_.pack_weights && !options_.deterministic) return linear(x, weight_, bias_);
  Tensor y = options_.pack_weights ? packed_(x) : deterministic_linear(x, weight_);
  if (bias_.defined()) y.add_(bias_);
  return y;
}

Tensor FusedLinear::gated(Activation activation, const Tensor& input) const {
  if (!options_.pack_weights && !options_.deterministic)
    return gated_linear(activation, options_.round_input ? options_.round_input(input) : input, weight_, bias_);
  const std::vector<Tensor> both = (*this)(input).chunk(2, 1);
  return keel::gated(activation, both[0], both[1]);
}

void make_adjacent(const std::vector<const Linear*>& layers) {
  for (Weight Linear::*member : {&Linear::weight, &Linear::bias}) {
    const std::vector<Tensor> parts = collect(layers, member);
    if (parts.size() != layers.size()) continue;
    const Tensor all = at::cat(parts);
    int64_t row = 0;
    for (const Linear* layer : layers) {
      const int64_t rows = (layer->*member).shape()[0];
      (layer->*member).set_value(all.narrow(0, row, rows));
      row += rows;
    }
  }
}

}  // namespace keel
