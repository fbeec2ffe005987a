#include "keel/model/causal_lm.h"

#include <ATen/ATen.h>

#include <numbers>

#include "keel/core/error.h"
#include "keel/core/philox.h"
#include "keel/model/layer_ops.h"

namespace keel {
namespace {

/// Normal numbers by Box and Muller from the counter-based generator, so that initial weights do not depend on the
/// device.
Tensor normal(std::vector<int64_t> shape, double standard_deviation, uint64_t seed, uint64_t parameter) {
  Tensor result = at::empty(shape, at::kFloat);
  float* data = result.data_ptr<float>();
  const int64_t count = result.numel();
  for (int64_t i = 0; i < count; i += 2) {
    const PhiloxBlock block = random_block(seed, Stream::kInitialWeights, parameter, static_cast<uint32_t>(i / 2),
                                           static_cast<uint32_t>(i >> 33));
    const double radius = standard_deviation * std::sqrt(-2.0 * std::log((block.word[0] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * (block.word[1] * 0x1p-32);
    data[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < count) data[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return result;
}

}  // namespace

CausalLm::CausalLm(const ModelConfig& config, at::Device device) : config_(config), blocks_(config.num_hidden_layers) {
  const Tensor exponent = at::arange(0, config.head_dim, 2, at::kFloat) / static_cast<double>(config.head_dim);
  const Tensor frequency = at::pow(at::scalar_tensor(config.rope_theta, at::kFloat), exponent).reciprocal();
  const Tensor angle = at::outer(at::arange(config.max_position_embeddings, at::kFloat), frequency);
  rope_cos_ = angle.cos().to(device);
  rope_sin_ = angle.sin().to(device);
}

void CausalLm::visit(const std::function<void(const std::string&, Tensor&, std::vector<int64_t>)>& visitor) {
  const int64_t hidden = config_.hidden_size, wide = config_.intermediate_size;
  const int64_t heads = config_.num_attention_heads * config_.head_dim;
  const int64_t kv_heads = config_.num_key_value_heads * config_.head_dim;
  visitor("model.embed_tokens.weight", embedding_, {config_.vocab_size, hidden});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    Block& block = blocks_[i];
    visitor(prefix + "input_layernorm.weight", block.input_norm, {hidden});
    visitor(prefix + "self_attn.q_proj.weight", block.query, {heads, hidden});
    visitor(prefix + "self_attn.k_proj.weight", block.key, {kv_heads, hidden});
    visitor(prefix + "self_attn.v_proj.weight", block.value, {kv_heads, hidden});
    visitor(prefix + "self_attn.o_proj.weight", block.output, {hidden, heads});
    visitor(prefix + "post_attention_layernorm.weight", block.post_norm, {hidden});
    visitor(prefix + "mlp.gate_proj.weight", block.gate, {wide, hidden});
    visitor(prefix + "mlp.up_proj.weight", block.up, {wide, hidden});
    visitor(prefix + "mlp.down_proj.weight", block.down, {hidden, wide});
  }
  visitor("model.norm.weight", final_norm_, {hidden});
  if (!config_.tie_word_embeddings) visitor("lm_head.weight", head_, {config_.vocab_size, hidden});
}

CausalLm CausalLm::random(const ModelConfig& config, uint64_t seed, at::Device device) {
  CausalLm model(config, device);
  uint64_t parameter = 0;
  model.visit([&](const std::string&, Tensor& weight, std::vector<int64_t> shape) {
    weight = shape.size() == 1 ? at::ones(shape, at::kFloat) : normal(shape, config.initializer_range, seed, parameter);
    weight = weight.to(device).requires_grad_();
    ++parameter;
  });
  return model;
}

CausalLm CausalLm::from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors, at::Device device,
                                const std::string& place) {
  std::map<std::string, Tensor> by_name;
  for (const NamedTensor& tensor : tensors) by_name[tensor.name] = tensor.value;
  CausalLm model(config, device);
  model.visit([&](const std::string& name, Tensor& weight, std::vector<int64_t> shape) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      fail(ExitCode::kBadInput, place, ": no tensor \"", name, "\"; its config.json asks for it");
    if (found->second.sizes() != at::IntArrayRef(shape))
      fail(ExitCode::kBadInput, place, ": tensor \"", name, "\" has shape ", found->second.sizes(),
           ", its config.json asks for ", at::IntArrayRef(shape));
    weight = found->second.to(device, at::kFloat).clone().requires_grad_();
    by_name.erase(found);
  });
  if (!by_name.empty())
    fail(ExitCode::kBadInput, place, ": tensor \"", by_name.begin()->first, "\" has no place in this architecture");
  return model;
}

Tensor CausalLm::forward(const Tensor& tokens, const Tensor& positions, const Attend& attend) const {
  const int64_t heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads, width = config_.head_dim;
  const Tensor cos = rope_cos_.index_select(0, positions);  // [N, D / 2]
  const Tensor sin = rope_sin_.index_select(0, positions);
  Tensor x = at::embedding(embedding_, tokens);  // [N, H]
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const Tensor attention_in = rms_norm(x, block.input_norm, config_.rms_norm_eps);
    const Tensor query = rotate(at::linear(attention_in, block.query).view({-1, heads, width}), cos, sin);
    const Tensor key = rotate(at::linear(attention_in, block.key).view({-1, kv_heads, width}), cos, sin);
    const Tensor value = at::linear(attention_in, block.value).view({-1, kv_heads, width});
    const Tensor attended = attend(static_cast<int64_t>(i), query, key, value);
    x = x + at::linear(attended.reshape({-1, heads * width}), block.output);

    const Tensor mlp_in = rms_norm(x, block.post_norm, config_.rms_norm_eps);
    x = x + at::linear(swiglu(at::linear(mlp_in, block.gate), at::linear(mlp_in, block.up)), block.down);
  }
  return rms_norm(x, final_norm_, config_.rms_norm_eps);
}

const Tensor& CausalLm::head() const { return config_.tie_word_embeddings ? embedding_ : head_; }

std::vector<NamedTensor> CausalLm::parameters() const {
  std::vector<NamedTensor> result;
  const_cast<CausalLm*>(this)->visit(  // the visitor only reads
      [&](const std::string& name, Tensor& weight, std::vector<int64_t>) {
        result.push_back({name, weight});
      });
  return result;
}

CausalLm CausalLm::with_linear_weights(const std::function<Tensor(const Tensor&)>& replace) const {
  CausalLm copy = *this;
  for (Block& block : copy.blocks_)
    for (Tensor* weight : {&block.query, &block.key, &block.value, &block.output, &block.gate, &block.up, &block.down})
      *weight = replace(*weight);
  return copy;
}

}  // namespace keel
