#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_weights.h"
#include "keel/model/network/recompute.h"
#include "keel/ops/layer_ops.h"

namespace keel {

/// Attention of one layer: from heads [N, heads, D] to [N, heads, D]. Training (packed sequences) and sampling (a
/// key-value cache) differ in it. Where activations are recomputed, a copy is called again in the backward pass and
/// must hold all that it needs.
using Attend = std::function<Tensor(int64_t layer, const AttentionConfig& attention, const Heads& heads)>;

/// What a forward pass takes, in training and in sampling.
struct ForwardInput {
  Tensor tokens, positions;  // [N] int64
  Attend attend;
  Dropout dropout = {};  // of the adapters' inputs; the network sets its layer
};

/// How a network computes.
struct ExecutionOptions {
  bool bitwise = false;                // training and sampling add up in one order, whatever else is computed with it
  bool recompute_activations = false;  // a backward pass computes each layer again from its input
  bool separate_adapter = false;       // sampling applies an adapter as training does, instead of merging it
};

/// The matrix products of one layer. Training and sampling compute them differently; what is between them (norms,
/// rotary embedding, attention, residual sums) is the transformer's.
class LayerProducts {
 public:
  virtual ~LayerProducts() = default;
  /// Queries, keys and values [N, their heads * D] of rows [N, H].
  virtual Heads attention_input(const Tensor& x, const Dropout& dropout) const = 0;
  virtual Tensor attention_output(const Tensor& x, const Dropout& dropout) const = 0;
  virtual Tensor mlp(const Tensor& x, const Dropout& dropout) const = 0;
};
/// One for each layer.
using NetworkProducts = std::vector<std::shared_ptr<const LayerProducts>>;

/// Tokens in, hidden states out, one code for all families, training and sampling. It shares its weights with others.
class Transformer {
 public:
  Transformer(ModelWeights weights, const ExecutionOptions& execution, NetworkProducts products);
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
  NetworkProducts products_;
  Tensor frequencies_, sliding_frequencies_;  // [D / 2] of the rotary embedding; the latter where it differs
};

}  // namespace keel
