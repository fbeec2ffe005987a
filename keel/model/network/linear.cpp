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

/// Joins the adapters of layers with the same input: all A below each other, and scale B as blocks of one matrix.
AdapterMatrices join_adapters(const std::vector<const Linear*>& layers) {
  int64_t ranks = 0, outputs = 0;
  for (const Linear* layer : layers) {
    if (layer->lora_a.defined()) ranks += layer->lora_a.shape()[0];
    outputs += layer->weight.shape()[0];
  }
  const Weight& weight = layers[0]->weight;
  const at::TensorOptions options = weight.value().options();
  const int64_t padded = gpu::padded_rank(ranks, options);
  Tensor a = at::zeros({padded, weight.shape()[1]}, options), b = at::zeros({outputs, padded}, options);
  int64_t rank = 0, output = 0;
  for (const Linear* layer : layers) {
    const int64_t layer_outputs = layer->weight.shape()[0];
    if (layer->lora_a.defined()) {
      const int64_t layer_rank = layer->lora_a.shape()[0];
      a.narrow(0, rank, layer_rank).copy_(layer->lora_a.value());
      b.narrow(0, output, layer_outputs).narrow(1, rank, layer_rank).copy_(layer->lora_b.value() * layer->lora_scale);
      rank += layer_rank;
    }
    output += layer_outputs;
  }
  return {a, b};
}

}  // namespace

Tensor Linear::operator()(const Tensor& input, bool deterministic, const Dropout& dropout) const {
  // The order of these two lines fixes the order in which autograd sums the gradients of the input.
  const Tensor x = lora_a.defined() && dropout.probability > 0 ? apply_dropout(input, dropout) : input;
  const Tensor y = weight.linear(input, bias, deterministic);
  return lora_a.defined() ? y + adapter_output(x, deterministic) : y;
}

Tensor Linear::adapter_output(const Tensor& x, bool deterministic) const {
  return lora_b.linear(lora_a.linear(x, {}, deterministic), {}, deterministic) * lora_scale;
}

Tensor Linear::merged_weight(const MasterWeights& masters) const {
  const auto to_float = [&](const Weight& x) { return masters.value_of(x).to(at::kFloat); };
  return lora_a.defined() ? at::addmm(to_float(weight), to_float(lora_b), to_float(lora_a), 1, lora_scale)
                          : to_float(weight);
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
  if (collect(layers, &Linear::lora_a).empty()) return;
  if (options.deterministic || options.pack_weights)
    for (const Linear* layer : layers) layers_.push_back(*layer);
  else
    adapter_ = join_adapters(layers);
}

Tensor FusedLinear::operator()(const Tensor& input) const {
  const Tensor x = options_.round_input ? options_.round_input(input) : input;
  if (!options_.pack_weights && !options_.deterministic) return linear(x, weight_, bias_, adapter_);
  Tensor y = options_.pack_weights ? packed_(x) : deterministic_linear(x, weight_);
  if (bias_.defined()) y.add_(bias_);
  int64_t begin = 0;
  for (const Linear& layer : layers_) {
    const int64_t outputs = layer.weight.shape()[0];
    if (layer.lora_a.defined()) y.narrow(1, begin, outputs).add_(layer.adapter_output(x, options_.deterministic));
    begin += outputs;
  }
  return y;
}

Tensor FusedLinear::gated(Activation activation, const Tensor& input) const {
  if (!options_.pack_weights && !options_.deterministic) {
    const Tensor x = options_.round_input ? options_.round_input(input) : input;
    return gated_linear(activation, x, weight_, bias_, adapter_);
  }
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
