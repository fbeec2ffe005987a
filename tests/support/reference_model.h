#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "keel/model/network/model_weights.h"
#include "tests/support/tensors.h"

namespace keel {

/// A small model configuration. `width` is the head size; heads * width need not equal the hidden size.
inline ModelConfig tiny_config(int64_t heads, int64_t kv_heads, bool tied, int64_t width = 4, int64_t vocab = 11) {
  ModelConfig config;
  config.vocab_size = vocab;
  config.hidden_size = 12;
  config.intermediate_size = 20;
  config.num_hidden_layers = 2;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = width;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = tied;
  config.rope.theta = 100;  // fast rotations, which reveal a wrong angle within a few positions
  config.rms_norm_eps = 1e-3;
  return config;
}

/// A model with weights that are large enough for uneven attention, and with norm weights that are not 1.
inline ModelWeights tiny_model(const ModelConfig& config, uint64_t seed = 1, at::Device device = at::kCPU) {
  const ModelWeights model = ModelWeights::random(config, seed, {device});
  for (const NamedTensor& parameter : model.parameters()) {
    const Tensor noise = random_normal(parameter.value.sizes(), ++seed).to(device);
    if (parameter.value.dim() == 1)
      parameter.value.add_(noise, 0.3);
    else
      parameter.value.copy_(noise * 0.4);
  }
  return model;
}

/// Independent Llama implementation: float64, one sequence, one head at a time, complex rotations, dense masked
/// attention, gradients by autograd.
class ReferenceModel {
 public:
  explicit ReferenceModel(const ModelWeights& model) : config_(model.config()) {
    for (const NamedTensor& p : model.parameters()) weights_[p.name] = p.value.to(at::kDouble).clone().requires_grad_();
  }

  Tensor hidden(const std::vector<int64_t>& tokens) const {  // [T, H]
    Tensor x = at("model.embed_tokens.weight").index_select(0, int64_tensor(tokens));
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      const std::string block = "model.layers." + std::to_string(layer) + ".";
      x = x + attention(norm(x, at(block + "input_layernorm.weight")), block + "self_attn.");
      const Tensor y = norm(x, at(block + "post_attention_layernorm.weight"));
      const Tensor gate = y.matmul(at(block + "mlp.gate_proj.weight").t());
      const Tensor up = y.matmul(at(block + "mlp.up_proj.weight").t());
      x = x + (gate / (1 + (-gate).exp()) * up).matmul(at(block + "mlp.down_proj.weight").t());
    }
    return norm(x, at("model.norm.weight"));
  }

  /// Returns the log-probs [T, V] of the next token at each position.
  Tensor log_probabilities(const std::vector<int64_t>& tokens, double temperature) const {
    const Tensor logits = hidden(tokens).matmul(head().t()) / temperature;
    return logits - logits.logsumexp(1, /*keepdim=*/true);
  }

  const Tensor& head() const {
    return at(config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  }
  const Tensor& at(const std::string& name) const { return weights_.at(name); }

 private:
  Tensor norm(const Tensor& x, const Tensor& weight) const {
    return x / ((x * x).mean(1, /*keepdim=*/true) + config_.rms_norm_eps).sqrt() * weight;
  }

  /// Returns head `h` of the projection: [T, D].
  Tensor head_of(const Tensor& x, const std::string& projection, int64_t h) const {
    return x.matmul(at(projection).narrow(0, h * config_.head_dim, config_.head_dim).t());
  }

  /// Components i and i + D/2 are a complex number, rotated by position * theta^(-2i/D).
  Tensor turned(const Tensor& x) const {
    const int64_t length = x.size(0), half = config_.head_dim / 2;
    std::vector<double> angles;
    for (int64_t t = 0; t < length; ++t)
      for (int64_t i = 0; i < half; ++i)
        angles.push_back(static_cast<double>(t) * std::pow(config_.rope.theta, -2.0 * i / config_.head_dim));
    const Tensor angle = at::tensor(angles, at::kDouble).view({length, half});
    const Tensor number =
        at::complex(x.narrow(1, 0, half), x.narrow(1, half, half)) * at::polar(at::ones_like(angle), angle);
    return at::cat({at::real(number), at::imag(number)}, 1);
  }

  Tensor attention(const Tensor& x, const std::string& prefix) const {
    const int64_t length = x.size(0), heads = config_.num_attention_heads;
    const Tensor future = at::ones({length, length}, at::kBool).triu(1);
    std::vector<Tensor> outputs;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t shared = h * config_.num_key_value_heads / heads;
      const Tensor query = turned(head_of(x, prefix + "q_proj.weight", h));
      const Tensor key = turned(head_of(x, prefix + "k_proj.weight", shared));
      const Tensor scores = query.matmul(key.t()) / std::sqrt(static_cast<double>(config_.head_dim));
      const Tensor looks = scores.masked_fill(future, -std::numeric_limits<double>::infinity()).softmax(1);
      outputs.push_back(looks.matmul(head_of(x, prefix + "v_proj.weight", shared)));
    }
    return at::cat(outputs, 1).matmul(at(prefix + "o_proj.weight").t());
  }

  ModelConfig config_;
  std::map<std::string, Tensor> weights_;
};

}  // namespace keel
