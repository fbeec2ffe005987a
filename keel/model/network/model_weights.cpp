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
// Two files, of which one is of another model or of another version of it.
constexpr const char* kOfOneModel = "; fetch the config.json and the weights of one model";

/// Uniform numbers in (-bound, bound) from the counter-based generator, so that they do not depend on the device.
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

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// Refuses a network whose weights alone are beyond this machine's memory; one that promises more than it has would end
/// the process without a word.
void require_memory_for(const ModelConfig& config) {
  constexpr double kGiB = 1 << 30;
  const double wanted = sizeof(float) * static_cast<double>(config.parameter_count()),
               have = static_cast<double>(machine_memory_bytes());
  if (wanted <= have) return;
  fail(ExitCode::kBadConfiguration, "model: the weights of a ", config.model_type, " with vocab_size ",
       config.vocab_size, ", hidden_size ", config.hidden_size, ", intermediate_size ", config.intermediate_size, ", ",
       config.num_attention_heads, " heads of ", config.head_dim, " and ", config.num_hidden_layers, " layers take ",
       std::ceil(wanted / kGiB), " GiB, this machine has ", std::floor(have / kGiB), " GiB; choose smaller sizes");
}

/// Tensors that files carry and no network needs: positions' frequencies of old checkpoints, a tied head stored twice.
bool may_be_surplus(const std::string& name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (name == kHead && config.tie_word_embeddings);
}

}  // namespace

void ModelWeights::visit(const Visitor& visitor) {
  const int64_t hidden = config_.hidden_size, wide = config_.intermediate_size, width = config_.head_dim;
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
      visitor(prefix + "post_attention_layernorm.weight", layer.attention_norm, {hidden});
      visitor(prefix + "pre_feedforward_layernorm.weight", layer.mlp_norm, {hidden});
      visitor(prefix + "post_feedforward_layernorm.weight", layer.output_norm, {hidden});
    } else {
      visitor(prefix + "post_attention_layernorm.weight", layer.mlp_norm, {hidden});
    }
    linear(prefix + "mlp.gate_proj", layer.gate, wide, hidden, config_.mlp_bias);
    linear(prefix + "mlp.up_proj", layer.up, wide, hidden, config_.mlp_bias);
    linear(prefix + "mlp.down_proj", layer.down, hidden, wide, config_.mlp_bias);
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

ModelWeights ModelWeights::random(const ModelConfig& config, uint64_t seed, at::Device device, at::ScalarType type) {
  if (device.is_cpu()) require_memory_for(config);
  ModelWeights model(config);
  uint64_t parameter = 0;
  model.visit([&](const std::string& name, Weight& weight, const std::vector<int64_t>& shape) {
    const bool norm = shape.size() == 1 && name.ends_with(".weight");
    const auto on_device = at::TensorOptions(at::kFloat).device(device);
    const Tensor start = shape.size() > 1 ? initial_weights(shape, config.initializer_range, seed, parameter, device)
                                          : at::full(shape, norm && !config.norm_plus_one ? 1.0 : 0.0, on_device);
    if (name == kEmbedding && config.padding_row() >= 0) start[config.padding_row()].zero_();
    weight = Weight(start.to(type));
    ++parameter;
  });
  model.list_weights();
  return model;
}

ModelWeights ModelWeights::load(const ModelConfig& config, const WeightSource& source, at::Device device) {
  std::map<std::string, std::vector<int64_t>> left = source.shapes;
  ModelWeights model(config);
  // Names and shapes first: a file that does not fit is refused before a large one has been read.
  model.visit([&](const std::string& name, Weight&, const std::vector<int64_t>& shape) {
    const auto found = left.find(name);
    if (found == left.end())
      fail(ExitCode::kBadInput, source.origin, ": no tensor \"", name, "\" of shape ", text_of(shape),
           "; its config.json asks for it", kOfOneModel);
    if (found->second != shape)
      fail(ExitCode::kBadInput, source.origin, ": tensor \"", name, "\" has shape ", text_of(found->second),
           ", its config.json asks for ", text_of(shape), kOfOneModel);
    left.erase(found);
  });
  for (const auto& [name, shape] : left)
    if (!may_be_surplus(name, config))
      fail(ExitCode::kBadInput, source.origin, ": tensor \"", name, "\" of shape ", text_of(shape),
           " has no place in a ", config.model_type, " of ", config.num_hidden_layers,
           " layers as its config.json describes it", kOfOneModel);
  model.visit([&](const std::string& name, Weight& weight, const std::vector<int64_t>&) {
    weight = Weight(source.read(name).to(device));
  });
  if (left.contains(kHead) && !source.read(kHead).equal(model.embedding_.value().cpu()))
    fail(ExitCode::kBadInput, source.origin, ": tensor \"", kHead, "\" differs from \"", kEmbedding,
         "\", but tie_word_embeddings of its config.json is true, which makes them one; set tie_word_embeddings to "
         "false in config.json to use both");
  model.list_weights();
  return model;
}

ModelWeights ModelWeights::from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors,
                                        at::Device device, const std::string& place) {
  std::map<std::string, Tensor> by_name;
  WeightSource source{place, {}, [&](const std::string& name) {
                        return by_name.at(name).detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
                      }};
  for (const NamedTensor& tensor : tensors) {
    by_name[tensor.name] = tensor.value;
    source.shapes[tensor.name] = tensor.value.sizes().vec();
  }
  return load(config, source, device);
}

MasterWeights ModelWeights::set_compute_type(at::ScalarType type) {
  MasterWeights masters(trainable());
  if (compute_type() == type && !has_adapter()) return masters;
  for (const auto* weights : {&network_, &adapter_})
    for (const NamedWeight& weight : *weights) weight.weight.set_value(weight.weight.value().to(type));
  if (has_adapter()) return masters;
  for (const LayerWeights& layer : layers_) {
    join({&layer.query, &layer.key, &layer.value});
    join({&layer.gate, &layer.up});
  }
  return masters;
}

void ModelWeights::set_adapter(const AdapterOf& adapter_of) {
  visit_linears([&](const std::string& name, Linear& layer) {
    const std::optional<LowRank> adapter = adapter_of(name, layer.weight.shape()[0], layer.weight.shape()[1]);
    if (!adapter) return;
    layer.lora_a = Weight(adapter->a.to(device()));
    layer.lora_b = Weight(adapter->b.to(device()));
    layer.lora_scale = adapter->scale;
  });
  list_weights();
}

void ModelWeights::add_adapter(const LoraOptions& options, uint64_t seed) {
  std::set<std::string> unknown(options.target_modules.begin(), options.target_modules.end());
  uint64_t number = 0;
  set_adapter([&](const std::string& name, int64_t out, int64_t in) -> std::optional<LowRank> {
    ++number;
    bool wanted = false;
    for (const std::string& module : options.target_modules) {
      if (name != module && !name.ends_with("." + module)) continue;
      wanted = true;
      unknown.erase(module);
    }
    if (!wanted) return std::nullopt;
    // PEFT's start: A uniform within 1/sqrt(in), B at 0.
    return LowRank{uniform({options.rank, in}, 1 / std::sqrt(static_cast<double>(in)), seed, number),
                   at::zeros({out, options.rank}, at::kFloat), options.scale()};
  });
  if (!unknown.empty())
    fail(ExitCode::kBadConfiguration, "lora.target_modules has \"", *unknown.begin(),
         "\"; known: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj");
}

/// Lists the weights by name, once they are all there.
void ModelWeights::list_weights() {
  network_.clear(), adapter_.clear();
  visit([&](const std::string& name, Weight& weight, const auto&) { network_.push_back({name, weight}); });
  visit_linears([&](const std::string& name, Linear& layer) {
    if (!layer.lora_a.defined()) return;
    adapter_.push_back({name + ".lora_A.weight", layer.lora_a});
    adapter_.push_back({name + ".lora_B.weight", layer.lora_b});
  });
}

ModelWeights ModelWeights::without_adapter() const {
  ModelWeights copy = *this;
  copy.visit_linears([](const std::string&, Linear& layer) { layer.lora_a = layer.lora_b = {}; });
  copy.list_weights();
  return copy;
}

ModelWeights ModelWeights::merged(const MasterWeights& masters, Round round) const {
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

ModelWeights ModelWeights::frozen() const {
  bool adds = !has_adapter();
  for (const NamedWeight& part : adapter_)
    adds = adds || (part.name.ends_with("lora_B.weight") && part.weight.value().any().item<bool>());
  return adds ? with_replaced_trainable([](const Weight& weight) { return weight.value().clone(); })
              : without_adapter();
}

}  // namespace keel
