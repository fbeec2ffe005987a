#include "keel/model/network/model_weights.h"

#include <ATen/ATen.h>

#include <set>

#include "keel/core/error.h"
#include "keel/core/philox.h"
#include "keel/core/tensor/device.h"
#include "keel/ops/initial_weights.h"

namespace keel {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";
// The error when config.json and weights belong to different models or versions.
constexpr const char* kSameModelHint = "; download config.json and the weights of one model";

/// Uniform numbers in (-bound, bound) from the counter-based generator, independent of the device.
Tensor uniform(std::vector<int64_t> shape, double bound, uint64_t seed, uint64_t parameter) {
  Tensor result = at::empty(shape, at::kFloat);
  float* data = result.data_ptr<float>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    const PhiloxBlock block = random_block(seed, Stream::kAdapterWeights, parameter, static_cast<uint32_t>(i),
                                           static_cast<uint32_t>(i >> 32));
    data[i] = static_cast<float>(bound * (2 * ((block.word[0] + 0.5) * 0x1p-32) - 1));
  }
  return result;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// Fails if the weights alone exceed the memory of this machine; otherwise the kernel would kill the process.
void check_memory(const ModelConfig& config) {
  constexpr double kGiB = 1 << 30;
  const double required = sizeof(float) * static_cast<double>(config.parameter_count()),
               available = static_cast<double>(machine_memory_bytes());
  if (required <= available) return;
  fail(ExitCode::kBadConfiguration, "model: the weights of a ", config.model_type, " with vocab_size ",
       config.vocab_size, ", hidden_size ", config.hidden_size, ", intermediate_size ", config.intermediate_size, ", ",
       config.num_attention_heads, " heads of ", config.head_dim, " and ", config.num_hidden_layers, " layers take ",
       std::ceil(required / kGiB), " GiB, this machine has ", std::floor(available / kGiB),
       " GiB; choose smaller sizes");
}

/// Tensors in files that the network does not need: RoPE frequencies of old checkpoints, and a tied LM head.
bool is_ignored_tensor(const std::string& name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (name == kHead && config.tie_word_embeddings);
}

void pass_config(const ModelConfig& config, const LoadOptions& options) {
  const std::string json = config.source.dump();
  if (options.on_bytes) options.on_bytes(std::as_bytes(std::span(json)));
}

/// Returns the weight on its device, after its bytes before rounding were passed on.
Weight place_weight(const Tensor& value, const LoadOptions& options) {
  if (options.on_bytes) {
    const Tensor bytes = value.cpu().contiguous();
    options.on_bytes({static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes()});
  }
  return Weight(value.to(options.device, options.type));
}

}  // namespace

void ModelWeights::visit(const Visitor& visitor) {
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size, width = config_.head_dim;
  const int64_t heads = config_.num_attention_heads * width, kv_heads = config_.num_key_value_heads * width;
  const auto linear = [&](const std::string& name, Linear& l, int64_t out, int64_t in, bool bias) {
    visitor(name + ".weight", l.weight, {out, in});
    if (bias) visitor(name + ".bias", l.bias, {out});
  };
  visitor(kEmbedding, embedding_, {config_.vocab_size, hidden});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".", attention = prefix + "self_attn.";
    LayerWeights& layer = layers_[i];
    visitor(prefix + "input_layernorm.weight", layer.input_norm, {hidden});
    linear(attention + "q_proj", layer.query, heads, hidden, config_.attention_bias);
    linear(attention + "k_proj", layer.key, kv_heads, hidden, config_.attention_bias);
    linear(attention + "v_proj", layer.value, kv_heads, hidden, config_.attention_bias);
    linear(attention + "o_proj", layer.output, hidden, heads, config_.output_bias);
    if (config_.query_key_norm) {
      visitor(attention + "q_norm.weight", layer.query_norm, {width});
      visitor(attention + "k_norm.weight", layer.key_norm, {width});
    }
    if (config_.norm_after) {
      visitor(prefix + "post_attention_layernorm.weight", layer.post_attention_norm, {hidden});
      visitor(prefix + "pre_feedforward_layernorm.weight", layer.pre_mlp_norm, {hidden});
      visitor(prefix + "post_feedforward_layernorm.weight", layer.post_mlp_norm, {hidden});
    } else {
      visitor(prefix + "post_attention_layernorm.weight", layer.pre_mlp_norm, {hidden});
    }
    linear(prefix + "mlp.gate_proj", layer.gate, intermediate, hidden, config_.mlp_bias);
    linear(prefix + "mlp.up_proj", layer.up, intermediate, hidden, config_.mlp_bias);
    linear(prefix + "mlp.down_proj", layer.down, hidden, intermediate, config_.mlp_bias);
  }
  visitor("model.norm.weight", final_norm_, {hidden});
  if (!config_.tie_word_embeddings) visitor(kHead, head_, {config_.vocab_size, hidden});
}

void ModelWeights::visit_linears(const std::function<void(const std::string& name, Linear& layer)>& visitor) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    LayerWeights& layer = layers_[i];
    visitor(prefix + "self_attn.q_proj", layer.query);
    visitor(prefix + "self_attn.k_proj", layer.key);
    visitor(prefix + "self_attn.v_proj", layer.value);
    visitor(prefix + "self_attn.o_proj", layer.output);
    visitor(prefix + "mlp.gate_proj", layer.gate);
    visitor(prefix + "mlp.up_proj", layer.up);
    visitor(prefix + "mlp.down_proj", layer.down);
  }
}

ModelWeights ModelWeights::random(const ModelConfig& config, uint64_t seed, const LoadOptions& options) {
  if (options.device.is_cpu()) check_memory(config);
  ModelWeights model(config);
  pass_config(config, options);
  uint64_t parameter = 0;
  model.visit([&](const std::string& name, Weight& weight, const std::vector<int64_t>& shape) {
    const bool norm = shape.size() == 1 && name.ends_with(".weight");
    const auto on_device = at::TensorOptions(at::kFloat).device(options.device);
    const Tensor initial = shape.size() > 1
                               ? initial_weights(shape, config.initializer_range, seed, parameter, options.device)
                               : at::full(shape, norm && !config.norm_plus_one ? 1.0 : 0.0, on_device);
    if (name == kEmbedding && config.padding_row() >= 0) initial[config.padding_row()].zero_();
    weight = place_weight(initial, options);
    ++parameter;
  });
  model.list_weights();
  return model;
}

ModelWeights ModelWeights::zeros(const ModelConfig& config) {
  ModelWeights model(config);
  model.visit([&](const std::string&, Weight& weight, const std::vector<int64_t>& shape) {
    weight = Weight(at::zeros({1}).expand(shape));
  });
  model.list_weights();
  return model;
}

ModelWeights ModelWeights::load(const ModelConfig& config, const WeightSource& source, const LoadOptions& options) {
  std::map<std::string, std::vector<int64_t>> unused = source.shapes;
  ModelWeights model(config);
  // Checks all names and shapes before reading large tensors.
  model.visit([&](const std::string& name, Weight&, const std::vector<int64_t>& shape) {
    const auto found = unused.find(name);
    if (found == unused.end())
      fail(ExitCode::kBadInput, source.origin, ": no tensor \"", name, "\" of shape ", shape_text(shape),
           ", which config.json requires", kSameModelHint);
    if (found->second != shape)
      fail(ExitCode::kBadInput, source.origin, ": tensor \"", name, "\" has shape ", shape_text(found->second),
           ", but config.json requires ", shape_text(shape), kSameModelHint);
    unused.erase(found);
  });
  for (const auto& [name, shape] : unused)
    if (!is_ignored_tensor(name, config))
      fail(ExitCode::kBadInput, source.origin, ": tensor \"", name, "\" of shape ", shape_text(shape),
           " does not belong to a ", config.model_type, " of ", config.num_hidden_layers,
           " layers, which config.json describes", kSameModelHint);
  pass_config(config, options);
  model.visit([&](const std::string& name, Weight& weight, const std::vector<int64_t>&) {
    weight = place_weight(source.read(name), options);
  });
  if (unused.contains(kHead) && !source.read(kHead).equal(source.read(kEmbedding)))
    fail(ExitCode::kBadInput, source.origin, ": tensor \"", kHead, "\" differs from \"", kEmbedding,
         "\", but tie_word_embeddings of config.json is true, so they must be equal; set tie_word_embeddings to "
         "false in config.json to use both");
  model.list_weights();
  return model;
}

ModelWeights ModelWeights::from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors,
                                        at::Device device, const std::string& origin) {
  std::map<std::string, Tensor> by_name;
  WeightSource source{origin, {}, [&](const std::string& name) {
                        return by_name.at(name).detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
                      }};
  for (const NamedTensor& tensor : tensors) {
    by_name[tensor.name] = tensor.value;
    source.shapes[tensor.name] = tensor.value.sizes().vec();
  }
  return load(config, source, {device});
}

MasterWeights ModelWeights::set_compute_type(at::ScalarType type) {
  const bool is_loaded_in_type = compute_type() == type;
  // Before the masters, which would keep the tensors that this replaces. A float32 weight must stay its own master.
  if (is_loaded_in_type && type != at::kFloat) make_matmuls_adjacent();
  MasterWeights masters(trainable());
  for (const auto* weights : {&network_, &adapter_})
    for (const NamedWeight& weight : *weights) weight.weight.set_value(weight.weight.value().to(type));
  if (!is_loaded_in_type) make_matmuls_adjacent();
  return masters;
}

/// Places the weights of layers with the same input next to each other, so that sampling fuses them without a copy.
void ModelWeights::make_matmuls_adjacent() {
  for (const LayerWeights& layer : layers_) {
    make_adjacent({&layer.query, &layer.key, &layer.value});
    make_adjacent({&layer.gate, &layer.up});
  }
}

void ModelWeights::set_adapter(const AdapterFunction& make_adapter) {
  visit_linears([&](const std::string& name, Linear& layer) {
    const std::optional<LoraMatrices> adapter = make_adapter(name, layer.weight.shape()[0], layer.weight.shape()[1]);
    if (!adapter) return;
    layer.lora_a = Weight(adapter->a.to(device()));
    layer.lora_b = Weight(adapter->b.to(device()));
    layer.lora_scale = adapter->scale;
  });
  list_weights();
}

void ModelWeights::add_adapter(const LoraOptions& options, uint64_t seed) {
  std::set<std::string> unknown(options.target_modules.begin(), options.target_modules.end());
  uint64_t layer_index = 0;
  set_adapter([&](const std::string& name, int64_t out, int64_t in) -> std::optional<LoraMatrices> {
    ++layer_index;
    bool is_targeted = false;
    for (const std::string& module : options.target_modules) {
      if (name != module && !name.ends_with("." + module)) continue;
      is_targeted = true;
      unknown.erase(module);
    }
    if (!is_targeted) return std::nullopt;
    // PEFT initialisation: A uniform within 1/sqrt(in), B = 0.
    return LoraMatrices{uniform({options.rank, in}, 1 / std::sqrt(static_cast<double>(in)), seed, layer_index),
                        at::zeros({out, options.rank}, at::kFloat), options.scale()};
  });
  if (!unknown.empty())
    fail(ExitCode::kBadConfiguration, "lora.target_modules has \"", *unknown.begin(),
         "\"; known: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj");
}

/// Rebuilds the lists of weights by name.
void ModelWeights::list_weights() {
  network_.clear(), adapter_.clear();
  visit([&](const std::string& name, Weight& weight, const auto&) { network_.push_back({name, weight}); });
  visit_linears([&](const std::string& name, Linear& layer) {
    if (!layer.lora_a.defined()) return;
    adapter_.push_back({name + ".lora_A.weight", layer.lora_a});
    adapter_.push_back({name + ".lora_B.weight", layer.lora_b});
  });
}

ModelWeights ModelWeights::with_config(const ModelConfig& config) const {
  ModelWeights copy = *this;
  copy.config_ = config;
  return copy;
}

ModelWeights ModelWeights::without_adapter() const {
  ModelWeights copy = *this;
  copy.visit_linears([](const std::string&, Linear& layer) { layer.lora_a = layer.lora_b = {}; });
  copy.list_weights();
  return copy;
}

ModelWeights ModelWeights::merged(const MasterWeights& masters, RoundFunction round) const {
  if (!has_adapter() && round == nullptr) return *this;
  const at::NoGradGuard no_grad;
  ModelWeights copy = *this;
  copy.visit_linears([&](const std::string&, Linear& layer) {
    const Tensor merged = layer.merged_weight(masters);
    layer = {.weight = Weight((round ? round(merged) : merged).to(compute_type())),
             .bias = layer.bias,
             .lora_a = {},
             .lora_b = {}};
  });
  copy.list_weights();
  return copy;
}

ModelWeights ModelWeights::with_replaced_trainable(const Replacement& replacement) const {
  if (!has_adapter()) return with_replaced(replacement);
  ModelWeights copy = *this;
  copy.visit_linears([&](const std::string&, Linear& layer) {
    for (Weight* weight : {&layer.lora_a, &layer.lora_b})
      if (weight->defined()) *weight = Weight(replacement(*weight));
  });
  copy.list_weights();
  return copy;
}

ModelWeights ModelWeights::with_replaced(const Replacement& replacement) const {
  ModelWeights copy = *this;
  copy.visit([&](const std::string&, Weight& weight, const auto&) { weight = Weight(replacement(weight)); });
  copy.list_weights();
  return copy;
}

ModelWeights ModelWeights::frozen_copy() const {
  bool has_effect = !has_adapter();
  for (const NamedWeight& part : adapter_)
    has_effect = has_effect || (part.name.ends_with("lora_B.weight") && part.weight.value().any().item<bool>());
  return has_effect ? with_replaced_trainable([](const Weight& weight) { return weight.value().clone(); })
                    : without_adapter();
}

}  // namespace keel
