#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/linear.h"
#include "keel/model/network/lora_options.h"
#include "keel/model/network/master_weights.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// Weights to be loaded: which there are, and a function that reads one as a float32 tensor of the CPU that nothing
/// else holds.
struct WeightSource {
  std::string origin;  // for errors
  std::map<std::string, std::vector<int64_t>> shapes;
  std::function<Tensor(const std::string& name)> read;
};

/// The weights of one layer. What a family does not have is none.
struct LayerWeights {
  Weight input_norm, query_norm, key_norm, attention_norm, mlp_norm, output_norm;
  Linear query, key, value, output, gate, up, down;
};

/// The weights of a causal language model, with an adapter or without. One layout for all families; what they differ by
/// is in the configuration. A copy shares the weights.
class ModelWeights {
 public:
  /// Random weights: normal with the configuration's initializer_range, norms at 1, biases at 0; a function of the seed
  /// (and, in a last bit, of the device), drawn on the device. Each is rounded to the type before the next is drawn.
  static ModelWeights random(const ModelConfig& config, uint64_t seed, at::Device device,
                             at::ScalarType type = at::kFloat);

  /// Takes the weights by their checkpoint names; missing, surplus and misshapen ones are errors (exit code 3).
  static ModelWeights load(const ModelConfig& config, const WeightSource& source, at::Device device);

  /// The same from tensors, which are copied.
  static ModelWeights from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors,
                                   at::Device device, const std::string& place);

  const ModelConfig& config() const { return config_; }
  at::Device device() const { return embedding_.device(); }
  at::ScalarType compute_type() const { return embedding_.type(); }

  const Weight& embedding() const { return embedding_; }
  const Weight& final_norm() const { return final_norm_; }
  /// The LM head's weight [V, H]; the embedding itself when they are tied.
  const Weight& head() const { return config_.tie_word_embeddings ? embedding_ : head_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }

  /// The network's weights in the order of the checkpoint's names; a tied head is not repeated.
  const std::vector<NamedWeight>& network() const { return network_; }
  /// The adapter's, by PEFT's names without its prefix.
  const std::vector<NamedWeight>& adapter_weights() const { return adapter_; }
  bool has_adapter() const { return !adapter_.empty(); }
  /// What training changes: the adapter's weights if there is an adapter, else the network's.
  const std::vector<NamedWeight>& trainable() const { return has_adapter() ? adapter_ : network_; }
  /// The numbers of both lists.
  std::vector<NamedTensor> parameters() const { return MasterWeights().value_of(network_); }
  std::vector<NamedTensor> adapter() const { return MasterWeights().value_of(adapter_); }

  /// Rounds all weights to a compute type. Returns the masters of those that are trained: their numbers before.
  MasterWeights set_compute_type(at::ScalarType type);

  /// Puts a fresh adapter on the layers that the options name, whole or by their ends (B is 0, so that nothing changes
  /// yet). Its weights are in float32: set_compute_type() comes after.
  void add_adapter(const LoraOptions& options, uint64_t seed);
  /// The same with the adapters that a function gives to layers of shape [out, in], or not.
  using AdapterOf = std::function<std::optional<LowRank>(const std::string& layer, int64_t out, int64_t in)>;
  void set_adapter(const AdapterOf& adapter_of);

  // The same network with other weights; everything else is shared.

  ModelWeights without_adapter() const;
  /// With adapters added to the linear weights, which are made of the masters and may be rounded further. Itself where
  /// there is neither an adapter nor `round`.
  ModelWeights merged(const MasterWeights& masters, Round round = nullptr) const;
  /// With a replacement for each trained weight, or for all weights.
  using Replacement = std::function<Tensor(const Weight& weight)>;
  ModelWeights with_replaced_trainable(const Replacement& replacement) const;
  ModelWeights with_replaced(const Replacement& replacement) const;
  /// As it is now, whatever training does later. An adapter that adds nothing yet (all B are 0) is off.
  ModelWeights frozen() const;

 private:
  explicit ModelWeights(const ModelConfig& config) : config_(config), layers_(config.num_hidden_layers) {}
  using Visitor = std::function<void(const std::string& name, Weight& weight, const std::vector<int64_t>& shape)>;
  void visit(const Visitor& visitor);
  void visit_linears(const std::function<void(const std::string& name, Linear& layer)>& visitor);
  void list_weights();

  ModelConfig config_;
  Weight embedding_, final_norm_, head_;
  std::vector<LayerWeights> layers_;
  std::vector<NamedWeight> network_, adapter_;
};

}  // namespace keel
