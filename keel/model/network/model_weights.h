#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/linear.h"
#include "keel/model/network/lora_options.h"
#include "keel/model/network/master_weights.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// A source of weights to load: their shapes, and a function that reads one as a new float32 CPU tensor.
struct WeightSource {
  std::string origin;  // named in errors
  std::map<std::string, std::vector<int64_t>> shapes;
  std::function<Tensor(const std::string& name)> read;
};

/// The device and the dtype of loaded weights. Each weight is rounded before the next one is read, so that a float32
/// copy of the whole model never exists. `on_bytes`, if given, gets config.json and the weights before rounding.
struct LoadOptions {
  at::Device device;
  at::ScalarType type = at::kFloat;
  std::function<void(std::span<const std::byte>)> on_bytes = nullptr;
};

/// The weights of one layer. Weights that a family does not have are undefined.
struct LayerWeights {
  Weight input_norm, query_norm, key_norm, post_attention_norm, pre_mlp_norm, post_mlp_norm;
  Linear query, key, value, output, gate, up, down;
};

/// The weights of a causal language model and its optional adapter, in one layout for all families. Copies share the
/// weights.
class ModelWeights {
 public:
  /// Random weights, drawn on the device: normal with initializer_range, norms 1, biases 0. They depend only on the
  /// seed (and in the last bit on the device).
  static ModelWeights random(const ModelConfig& config, uint64_t seed, const LoadOptions& options);

  /// Weights of zeros on the CPU, which take no memory: for code that needs only names and shapes.
  static ModelWeights zeros(const ModelConfig& config);

  /// Loads the weights by their checkpoint names. Fails (exit code 3) for missing, extra and misshapen tensors.
  static ModelWeights load(const ModelConfig& config, const WeightSource& source, const LoadOptions& options);

  /// Like load(), from tensors, which are copied.
  static ModelWeights from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors,
                                   at::Device device, const std::string& origin);

  const ModelConfig& config() const { return config_; }
  at::Device device() const { return embedding_.device(); }
  at::ScalarType compute_type() const { return embedding_.type(); }

  const Weight& embedding() const { return embedding_; }
  const Weight& final_norm() const { return final_norm_; }
  /// The weight [V, H] of the LM head; the embedding if they are tied.
  const Weight& head() const { return config_.tie_word_embeddings ? embedding_ : head_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }

  /// The base weights in the order of the checkpoint. A tied head is not repeated.
  const std::vector<NamedWeight>& network() const { return network_; }
  /// The adapter weights, with PEFT names without their prefix.
  const std::vector<NamedWeight>& adapter_weights() const { return adapter_; }
  bool has_adapter() const { return !adapter_.empty(); }
  /// The trainable weights: those of the adapter if there is one, else all base weights.
  const std::vector<NamedWeight>& trainable() const { return has_adapter() ? adapter_ : network_; }
  /// The values of the base weights and of the adapter.
  std::vector<NamedTensor> parameters() const { return MasterWeights().value_of(network_); }
  std::vector<NamedTensor> adapter() const { return MasterWeights().value_of(adapter_); }

  /// Rounds all weights to `type`. Returns the master weights: the trainable weights before rounding.
  MasterWeights set_compute_type(at::ScalarType type);

  /// Adds a new adapter with B = 0 to the layers whose names or name suffixes the options list. Its weights are
  /// float32: call set_compute_type() afterwards.
  void add_adapter(const LoraOptions& options, uint64_t seed);
  /// Sets the adapter that a function returns for each layer of shape [out, in], if any.
  using AdapterFunction = std::function<std::optional<LoraMatrices>(const std::string& layer, int64_t out, int64_t in)>;
  void set_adapter(const AdapterFunction& make_adapter);

  // Copies of the network with other weights or another config.json; everything else is shared.

  ModelWeights with_config(const ModelConfig& config) const;

  ModelWeights without_adapter() const;
  /// Merges the adapter into the linear weights, computed from the masters and rounded by `round`, if given. Without
  /// adapter and `round` it returns the same weights.
  ModelWeights merged(const MasterWeights& masters, RoundFunction round = nullptr) const;
  /// Replaces the trainable weights, or all base weights.
  using Replacement = std::function<Tensor(const Weight& weight)>;
  ModelWeights with_replaced_trainable(const Replacement& replacement) const;
  ModelWeights with_replaced(const Replacement& replacement) const;
  /// A snapshot that later training does not change. An adapter whose B are all 0 is dropped.
  ModelWeights frozen_copy() const;

 private:
  explicit ModelWeights(const ModelConfig& config) : config_(config), layers_(config.num_hidden_layers) {}
  using Visitor = std::function<void(const std::string& name, Weight& weight, const std::vector<int64_t>& shape)>;
  void visit(const Visitor& visitor);
  void visit_linears(const std::function<void(const std::string& name, Linear& layer)>& visitor);
  void list_weights();
  void make_matmuls_adjacent();

  ModelConfig config_;
  Weight embedding_, final_norm_, head_;
  std::vector<LayerWeights> layers_;
  std::vector<NamedWeight> network_, adapter_;
};

}  // namespace keel
