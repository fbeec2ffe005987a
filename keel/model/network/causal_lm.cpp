#include "keel/model/network/causal_lm.h"

#include <ATen/ATen.h>

#include <memory>
#include <set>

#include "keel/core/error.h"
#include "keel/core/philox.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/in_host_memory.h"
#include "keel/ops/initial_weights.h"
#include "keel/ops/ordered_linear.h"

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

/// The padding token's row of the embedding, or -1: as in transformers it starts at 0 and as an input learns nothing.
int64_t padding_row(const ModelConfig& config) {
  const Json pad = config.source.value("pad_token_id", Json());
  const bool row = pad.is_number_integer() && pad >= 0 && pad < config.vocab_size;
  return row ? pad.get<int64_t>() : -1;
}

/// A number as a tensor of this type holds it.
double number_in(double number, at::ScalarType type) { return at::scalar_tensor(number, type).item<double>(); }

/// Tensors that files carry and no network needs: positions' frequencies of old checkpoints, a tied head stored twice.
bool may_be_surplus(const std::string& name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (name == kHead && config.tie_word_embeddings);
}

}  // namespace

std::vector<NamedTensor> masters_of(const std::vector<NamedParameter>& parameters) {
  std::vector<NamedTensor> result;
  for (const NamedParameter& parameter : parameters) result.push_back({parameter.name, parameter.value.master});
  return result;
}

CausalLm::CausalLm(const ModelConfig& config, at::Device device) : config_(config), blocks_(config.num_hidden_layers) {
  frequencies_ = inverse_frequencies(config.rope, config.head_dim).to(device);
  if (config.sliding_rope) sliding_frequencies_ = inverse_frequencies(*config.sliding_rope, config.head_dim).to(device);
  const double scale =
      config.attention_scale > 0 ? config.attention_scale : 1 / std::sqrt(static_cast<double>(config.head_dim));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].slides = config.slides(static_cast<int64_t>(i));
    blocks_[i].rule = {scale, config.attention_softcap, blocks_[i].slides ? config.sliding_window : 0};
  }
}

void CausalLm::visit(const Visitor& visitor) {
  const int64_t hidden = config_.hidden_size, wide = config_.intermediate_size, width = config_.head_dim;
  const int64_t heads = config_.num_attention_heads * width, kv_heads = config_.num_key_value_heads * width;
  const auto linear = [&](const std::string& name, Linear& layer, int64_t out, int64_t in, bool bias) {
    visitor(name + ".weight", layer.weight, {out, in});
    if (bias) visitor(name + ".bias", layer.bias, {out});
  };
  visitor(kEmbedding, embedding_, {config_.vocab_size, hidden});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".", attention = prefix + "self_attn.";
    Block& block = blocks_[i];
    visitor(prefix + "input_layernorm.weight", block.input_norm, {hidden});
    linear(attention + "q_proj", block.query, heads, hidden, config_.attention_bias);
    linear(attention + "k_proj", block.key, kv_heads, hidden, config_.attention_bias);
    linear(attention + "v_proj", block.value, kv_heads, hidden, config_.attention_bias);
    linear(attention + "o_proj", block.output, hidden, heads, config_.output_bias);
    if (config_.query_key_norm) {
      visitor(attention + "q_norm.weight", block.query_norm, {width});
      visitor(attention + "k_norm.weight", block.key_norm, {width});
    }
    if (config_.norm_after) {
      visitor(prefix + "post_attention_layernorm.weight", block.attention_norm, {hidden});
      visitor(prefix + "pre_feedforward_layernorm.weight", block.mlp_norm, {hidden});
      visitor(prefix + "post_feedforward_layernorm.weight", block.output_norm, {hidden});
    } else {
      visitor(prefix + "post_attention_layernorm.weight", block.mlp_norm, {hidden});
    }
    linear(prefix + "mlp.gate_proj", block.gate, wide, hidden, config_.mlp_bias);
    linear(prefix + "mlp.up_proj", block.up, wide, hidden, config_.mlp_bias);
    linear(prefix + "mlp.down_proj", block.down, hidden, wide, config_.mlp_bias);
  }
  visitor("model.norm.weight", final_norm_, {hidden});
  if (!config_.tie_word_embeddings) visitor(kHead, head_, {config_.vocab_size, hidden});
}

CausalLm CausalLm::random(const ModelConfig& config, uint64_t seed, at::Device device) {
  return random_with(config, seed, device, [](const Tensor& start) { return start.requires_grad_(); });
}

CausalLm CausalLm::random_frozen(const ModelConfig& config, uint64_t seed, at::Device device, at::ScalarType type) {
  return random_with(config, seed, device, [type](const Tensor& start) { return start.to(type); });
}

CausalLm CausalLm::random_with(const ModelConfig& config, uint64_t seed, at::Device device,
                               const std::function<Tensor(const Tensor&)>& weight_of) {
  if (device.is_cpu()) require_memory_for(config);
  CausalLm model(config, device);
  uint64_t parameter = 0;
  model.visit([&](const std::string& name, Parameter& weight, std::vector<int64_t> shape) {
    const bool norm = shape.size() == 1 && name.ends_with(".weight");
    const auto on_device = at::TensorOptions(at::kFloat).device(device);
    const Tensor start = shape.size() > 1 ? initial_weights(shape, config.initializer_range, seed, parameter, device)
                                          : at::full(shape, norm && !config.norm_plus_one ? 1.0 : 0.0, on_device);
    if (name == kEmbedding && padding_row(config) >= 0) start[padding_row(config)].zero_();
    weight = weight_of(start);
    ++parameter;
  });
  return model;
}

CausalLm CausalLm::load(const ModelConfig& config, const WeightSource& source, at::Device device) {
  std::map<std::string, std::vector<int64_t>> left = source.shapes;
  CausalLm model(config, device);
  // Names and shapes first: a file that does not fit is refused before a large one has been read.
  model.visit([&](const std::string& name, Parameter&, std::vector<int64_t> shape) {
    const auto found = left.find(name);
    if (found == left.end())
      fail(ExitCode::kBadInput, source.place, ": no tensor \"", name, "\" of shape ", text_of(shape),
           "; its config.json asks for it", kOfOneModel);
    if (found->second != shape)
      fail(ExitCode::kBadInput, source.place, ": tensor \"", name, "\" has shape ", text_of(found->second),
           ", its config.json asks for ", text_of(shape), kOfOneModel);
    left.erase(found);
  });
  for (const auto& [name, shape] : left)
    if (!may_be_surplus(name, config))
      fail(ExitCode::kBadInput, source.place, ": tensor \"", name, "\" of shape ", text_of(shape),
           " has no place in a ", config.model_type, " of ", config.num_hidden_layers,
           " layers as its config.json describes it", kOfOneModel);
  model.visit([&](const std::string& name, Parameter& weight, std::vector<int64_t>) {
    weight = source.read(name).to(device).requires_grad_();
  });
  if (left.contains(kHead) && !source.read(kHead).equal(model.embedding_.master.detach().cpu()))
    fail(ExitCode::kBadInput, source.place, ": tensor \"", kHead, "\" differs from \"", kEmbedding,
         "\", but tie_word_embeddings of its config.json is true, which makes them one; set tie_word_embeddings to "
         "false in config.json to use both");
  return model;
}

CausalLm CausalLm::from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors, at::Device device,
                                const std::string& place) {
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

Tensor CausalLm::norm_weight(const Parameter& parameter) const {
  const Tensor weight = parameter.forward();
  return config_.norm_plus_one ? weight.to(at::kFloat) + 1 : weight;
}

Tensor CausalLm::norm(const Tensor& x, const Parameter& parameter) const {
  return rms_norm(x, norm_weight(parameter), config_.rms_norm_eps);
}

Tensor CausalLm::attention(int64_t layer, const Tensor& x, const Angles& angles, const Attend& attend) const {
  const Block& block = blocks_[layer];
  const int64_t width = config_.head_dim, heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads;
  const auto in_heads = [&](const Tensor& rows) { return rows.view({x.size(0), -1, width}); };
  const auto normed = [&](const Tensor& rows, const Parameter& head_norm) {
    return head_norm.defined() ? norm(rows.reshape({-1, width}), head_norm).view(rows.sizes()) : rows;
  };
  Heads rows;
  if (block.query_key_value.defined()) {
    const Tensor all = in_heads(block.query_key_value(x));
    rows = {all.narrow(1, 0, heads), all.narrow(1, heads, kv_heads), all.narrow(1, heads + kv_heads, kv_heads)};
  } else {
    rows = {in_heads(block.query(x)), in_heads(block.key(x)), in_heads(block.value(x))};
  }
  rows = {normed(rows.query, block.query_norm), normed(rows.key, block.key_norm), rows.value, angles};
  if (round_keys_and_values_) {
    rows = rows.turned();
    rows = {rows.query, round_keys_and_values_(rows.key), round_keys_and_values_(rows.value)};
  }
  return block.output(attend(layer, block.rule, rows).reshape({-1, heads * width}));
}

Tensor CausalLm::mlp(const Block& block, const Tensor& x) const {
  if (!block.gate_up.defined()) return block.down(gated(config_.activation, block.gate(x), block.up(x)));
  return block.down(block.gate_up.gated(config_.activation, x));
}

Residual CausalLm::layer(size_t index, const Residual& in, const Angles& angles, const Attend& attend) const {
  const Block& block = blocks_[index];
  // What a part makes of the norm is added to the sum, whose norm is what the next one sees.
  const auto add = [&](const Residual& to, const Tensor& out, const Parameter& after,
                       const Parameter& next) -> Residual {
    const NormedSum both =
        add_and_norm(to.sum, after.defined() ? norm(out, after) : out, norm_weight(next), config_.rms_norm_eps);
    return {both.sum, both.normed};
  };
  const Residual attended =
      add(in, attention(static_cast<int64_t>(index), in.normed, angles, attend), block.attention_norm, block.mlp_norm);
  return add(attended, mlp(block, attended.normed), block.output_norm,
             index + 1 < blocks_.size() ? blocks_[index + 1].input_norm : final_norm_);
}

Tensor CausalLm::forward(const Tensor& tokens, const Tensor& positions, const Attend& attend) const {
  const Angles angles = angles_at(positions, frequencies_, config_.rope.attention_factor);
  Angles sliding_angles = angles;
  if (config_.sliding_rope)
    sliding_angles = angles_at(positions, sliding_frequencies_, config_.sliding_rope->attention_factor);
  // [N, H]; rows of the master are rounded to those of the compute tensor, and their gradients added in float32.
  Tensor x = at::embedding(embedding_.master, tokens, padding_row(config_)).to(compute_type());
  if (config_.scaled_embedding) x = x * number_in(std::sqrt(static_cast<double>(config_.hidden_size)), compute_type());
  Tensor y = norm(x, blocks_.empty() ? final_norm_ : blocks_[0].input_norm);
  Residual stream{std::move(x), std::move(y)};
  const bool again = recompute_activations_ && at::GradMode::is_enabled();
  const auto self = again ? std::make_shared<const CausalLm>(*this) : nullptr;  // for when the layers are called again
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Angles& turned_by = blocks_[i].slides ? sliding_angles : angles;
    stream = again ? recomputed([=](const Residual& in) { return self->layer(i, in, turned_by, attend); }, stream)
                   : layer(i, stream, turned_by, attend);
  }
  return stream.normed;
}

LmHead CausalLm::lm_head(double temperature) const {
  return LmHead(head_parameter(), {.temperature = temperature, .softcap = config_.logit_softcap, .bitwise = bitwise_});
}

Tensor CausalLm::raw_logits(const Tensor& hidden) const {
  if (head_panels_.defined()) return head_panels_(hidden);
  return bitwise_ ? ordered_wide_linear(hidden, head()) : wide_linear(hidden, head());
}

std::vector<NamedParameter> CausalLm::network_parameters() const {
  std::vector<NamedParameter> result;
  const_cast<CausalLm*>(this)->visit(  // the visitor only reads
      [&](const std::string& name, Parameter& weight, std::vector<int64_t>) { result.push_back({name, weight}); });
  return result;
}

void CausalLm::compute_in(at::ScalarType type) {
  visit([&](const std::string&, Parameter& weight, const std::vector<int64_t>&) { weight.compute_in(type); });
  visit_linears([&](const std::string&, Linear& layer) {
    layer.lora_a.compute_in(type);
    layer.lora_b.compute_in(type);
  });
  for (Block& block : blocks_) {
    join({&block.query, &block.key, &block.value});
    join({&block.gate, &block.up});
  }
}

void CausalLm::visit_linears(const LinearVisitor& visitor) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    Block& block = blocks_[i];
    visitor(prefix + "self_attn.q_proj", block.query);
    visitor(prefix + "self_attn.k_proj", block.key);
    visitor(prefix + "self_attn.v_proj", block.value);
    visitor(prefix + "self_attn.o_proj", block.output);
    visitor(prefix + "mlp.gate_proj", block.gate);
    visitor(prefix + "mlp.up_proj", block.up);
    visitor(prefix + "mlp.down_proj", block.down);
  }
}

void CausalLm::put_adapter(const AdapterOf& adapter_of) {
  for (const NamedTensor& parameter : parameters()) parameter.value.set_requires_grad(false);
  visit_linears([&](const std::string& name, Linear& layer) {
    const Tensor& weight = layer.weight.compute;
    const std::optional<LowRank> adapter = adapter_of(name, weight.size(0), weight.size(1));
    if (!adapter) return;
    layer.lora_a = adapter->a.to(device()).requires_grad_();
    layer.lora_b = adapter->b.to(device()).requires_grad_();
    layer.lora_a.compute_in(compute_type());
    layer.lora_b.compute_in(compute_type());
    layer.lora_scale = adapter->scale;
  });
}

void CausalLm::add_adapter(const LoraOptions& options, uint64_t seed) {
  std::set<std::string> unknown(options.target_modules.begin(), options.target_modules.end());
  uint64_t number = 0;
  put_adapter([&](const std::string& name, int64_t out, int64_t in) -> std::optional<LowRank> {
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

std::vector<NamedParameter> CausalLm::adapter_parameters() const {
  std::vector<NamedParameter> result;
  const_cast<CausalLm*>(this)->visit_linears([&](const std::string& name, Linear& layer) {
    if (!layer.lora_a.defined()) return;
    result.push_back({name + ".lora_A.weight", layer.lora_a});
    result.push_back({name + ".lora_B.weight", layer.lora_b});
  });
  return result;
}

std::vector<NamedParameter> CausalLm::trainable() const {
  std::vector<NamedParameter> result = adapter_parameters();
  return result.empty() ? network_parameters() : result;
}

CausalLm CausalLm::with_dropout(double share, uint64_t seed, uint64_t update) const {
  CausalLm copy = *this;
  copy.dropout_ = {.share = share, .seed = seed, .update = update};
  return copy;
}

CausalLm CausalLm::dropping_out(const Tensor& sequences, const Tensor& positions) const {
  CausalLm copy = *this;
  copy.dropout_.sequences = sequences;
  copy.dropout_.positions = positions;
  uint64_t number = 0;
  copy.visit_linears([&](const std::string&, Linear& layer) {
    layer.dropout = copy.dropout_;
    layer.dropout.layer = number++;
  });
  return copy;
}

CausalLm CausalLm::with_linear_weights(const std::function<Tensor(const Tensor&)>& replace) const {
  const at::NoGradGuard no_grad;
  CausalLm copy = *this;
  copy.visit_linears([&](const std::string&, Linear& layer) {
    layer = {.weight = replace(layer.merged_weight()),
             .bias = layer.bias,
             .lora_a = {},
             .lora_b = {},
             .bitwise = layer.bitwise};
    layer.weight.compute_in(compute_type());
  });
  return copy;
}

CausalLm CausalLm::rounded(const Rounding& rounding) const {
  CausalLm copy = with_linear_weights(rounding.weights);
  copy.visit_linears([&](const std::string&, Linear& layer) { layer.round_input = rounding.activations; });
  copy.round_keys_and_values_ = rounding.keys_and_values;
  return copy;
}

CausalLm CausalLm::without_adapter() const {
  CausalLm copy = *this;
  copy.visit_linears([](const std::string&, Linear& layer) { layer.lora_a = layer.lora_b = {}; });
  return copy;
}

/// A copy in which `own` makes its own of what training changes.
CausalLm CausalLm::with_own(const std::function<void(Parameter& trained)>& own) const {
  CausalLm copy = *this;
  if (adapter().empty())
    copy.visit([&](const std::string&, Parameter& weight, const std::vector<int64_t>&) { own(weight); });
  else
    copy.visit_linears([&](const std::string&, Linear& layer) {
      if (layer.lora_a.defined()) own(layer.lora_a), own(layer.lora_b);
    });
  return copy;
}

CausalLm CausalLm::frozen() const {
  bool adds = adapter().empty();
  for (const NamedParameter& part : adapter_parameters())
    adds = adds || (part.name.ends_with("lora_B.weight") && part.value.compute.any().item<bool>());
  return adds ? with_own([](Parameter& parameter) { parameter = parameter.compute.detach().clone(); })
              : without_adapter();
}

CausalLm CausalLm::snapshot(bool with_masters) const {
  return with_own([&](Parameter& parameter) {
    const Parameter now = parameter;
    parameter = now.compute.detach().clone();
    if (with_masters && now.is_rounded()) parameter.master = now.master.detach().clone();
  });
}

CausalLm CausalLm::copied_to_host() const {
  const auto own = [](Parameter& parameter) {
    const Tensor& master = parameter.master;
    if (master.defined())
      parameter = master.is_cpu() && !master.requires_grad() ? master.detach() : in_host_memory(master);
  };
  CausalLm copy = *this;
  copy.visit([&](const std::string&, Parameter& weight, const std::vector<int64_t>&) { own(weight); });
  copy.visit_linears([&](const std::string&, Linear& layer) { own(layer.lora_a), own(layer.lora_b); });
  return copy;
}

CausalLm CausalLm::merged() const {
  if (adapter().empty()) return *this;
  return with_linear_weights([](const Tensor& weight) { return weight; });
}

void CausalLm::make_bitwise() {
  if (!has_ordered_products(device(), compute_type()))
    fail(ExitCode::kBadConfiguration, "rollout.bitwise is true, but on a ", device().is_cpu() ? "CPU" : "GPU",
         " sampler and trainer have a common order of additions only in ",
         device().is_cpu() ? "float32: set run.precision=float32" : "bf16 and fp16: set run.precision=bf16",
         ", or rollout.bitwise=false");
  bitwise_ = true;
  visit_linears([](const std::string&, Linear& layer) { layer.bitwise = true; });
}

CausalLm CausalLm::for_sampling() const {
  CausalLm copy = samples_merged() ? merged() : *this;
  const bool panels = device().is_cpu() && compute_type() == at::kFloat, adapted = !copy.adapter().empty();
  PanelMemory memory;
  for (Block& block : copy.blocks_) {
    if (!adapted) {
      block.query_key_value = JoinedLinear({&block.query, &block.key, &block.value}, memory);
      block.gate_up = JoinedLinear({&block.gate, &block.up}, memory);
    }
    if (!panels) continue;
    block.output.make_panels(memory);
    block.down.make_panels(memory);
    if (adapted)
      for (Linear* layer : {&block.query, &block.key, &block.value, &block.gate, &block.up}) layer->make_panels(memory);
  }
  if (panels) copy.head_panels_ = PanelWeight({head()}, memory);
  return copy;
}

}  // namespace keel
