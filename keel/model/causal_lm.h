#pragma once

#include <functional>
#include <string>
#include <vector>

#include "keel/core/tensor.h"
#include "keel/model/model_config.h"

namespace keel {

struct NamedTensor {
  std::string name;  // as in a Hugging Face checkpoint
  Tensor value;
};

/// How tokens look at each other, in one layer: queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads,
/// D]. The network is the same for training (packed sequences) and sampling (a key-value cache); only this differs.
using Attend = std::function<Tensor(int64_t layer, const Tensor& query, const Tensor& key, const Tensor& value)>;

/// A Llama-style causal language model without its head's projection: tokens in, hidden states out.
///
/// It is a bundle of tensor handles: a copy shares the weights.
class CausalLm {
 public:
  /// Random weights: normal with the configuration's initializer_range, norms at 1; a function of the seed alone.
  static CausalLm random(const ModelConfig& config, uint64_t seed, at::Device device);

  /// Takes the weights by their checkpoint names; missing, surplus and misshapen ones are errors that name `place`.
  static CausalLm from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors, at::Device device,
                               const std::string& place);

  /// Hidden states [N, H] after the final norm, of tokens [N] at positions [N] (both int64).
  Tensor forward(const Tensor& tokens, const Tensor& positions, const Attend& attend) const;

  /// The LM head's weight [V, H]; the embedding itself when they are tied.
  const Tensor& head() const;

  /// Every parameter once, in the order of the checkpoint's names. Tied heads are not repeated.
  std::vector<NamedTensor> parameters() const;

  /// The same network with the blocks' linear weights replaced; everything else is shared.
  CausalLm with_linear_weights(const std::function<Tensor(const Tensor&)>& replace) const;

  const ModelConfig& config() const { return config_; }
  at::Device device() const { return embedding_.device(); }

 private:
  struct Block {
    Tensor input_norm, query, key, value, output, post_norm, gate, up, down;
  };
  explicit CausalLm(const ModelConfig& config, at::Device device);
  void visit(const std::function<void(const std::string&, Tensor&, std::vector<int64_t> shape)>& visitor);

  ModelConfig config_;
  Tensor embedding_, final_norm_, head_;
  std::vector<Block> blocks_;
  Tensor rope_cos_, rope_sin_;  // [max_positions, D / 2]
};

}  // namespace keel
