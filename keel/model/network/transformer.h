#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_weights.h"
#include "keel/model/network/recompute.h"
#include "keel/ops/layer_ops.h"

namespace keel {

/// Attention of one layer, [N, heads, D] to [N, heads, D]: over packed sequences in training, over a KV cache in
/// sampling. With activation checkpointing it is called again in the backward pass, so it must own everything that it
/// uses.
using AttentionFunction = std::function<Tensor(int64_t layer, const AttentionConfig& attention, const Heads& heads)>;

struct ForwardInput {
  Tensor tokens, positions;  // [N] int64
  AttentionFunction attend;
  Dropout dropout = {};  // on adapter inputs; the network sets linear_layer
};

struct ExecutionOptions {
  bool bitwise = false;                // training and sampling give the same bits for any batch
  bool recompute_activations = false;  // activation checkpointing of each layer
};

/// The matrix multiplications of one layer, which differ between training and sampling. The Transformer computes the
/// rest: norms, rotary embedding, attention and residual sums.
class LayerMatmuls {
 public:
  virtual ~LayerMatmuls() = default;
  /// Queries, keys and values [N, heads * D] of hidden states [N, H].
  virtual Heads attention_input(const Tensor& x, const Dropout& dropout) const = 0;
  virtual Tensor attention_output(const Tensor& x, const Dropout& dropout) const = 0;
  virtual Tensor mlp(const Tensor& x, const Dropout& dropout) const = 0;
};
/// One for each layer.
using NetworkMatmuls = std::vector<std::shared_ptr<const LayerMatmuls>>;

/// Computes hidden states from tokens, for all model families, in training and sampling. It shares its weights.
class Transformer {
 public:
  Transformer(ModelWeights weights, const ExecutionOptions& execution, NetworkMatmuls matmuls);
  virtual ~Transformer() = default;

  /// Hidden states [N, H] after the final norm.
  virtual Tensor forward(const ForwardInput& input) const;

  const ModelWeights& weights() const { return weights_; }
  const ExecutionOptions& execution() const { return execution_; }
  const ModelConfig& config() const { return weights_.config(); }
  at::Device device() const { return weights_.device(); }
  at::ScalarType compute_type() const { return weights_.compute_type(); }

 private:
  struct Pass;
  Tensor norm_weight(const Weight& weight) const;
  Tensor norm(const Tensor& x, const Weight& weight) const;
  Tensor attention(int64_t index, const Tensor& x, const Pass& pass) const;
  Residual layer(int64_t index, const Residual& in, const Pass& pass) const;

  ModelWeights weights_;
  ExecutionOptions execution_;
  NetworkMatmuls matmuls_;
  Tensor frequencies_, sliding_frequencies_;  // [D / 2] of the rotary embedding; sliding: if different
};

}  // namespace keel
