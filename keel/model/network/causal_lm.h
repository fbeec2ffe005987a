#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/linear.h"
#include "keel/model/network/lora_options.h"
#include "keel/model/network/model_config.h"
#include "keel/model/network/recompute.h"
#include "keel/model/network/rope.h"
#include "keel/ops/attention_rule.h"
#include "keel/ops/layer_ops.h"
#include "keel/ops/lm_head.h"
#include "keel/ops/precision.h"

namespace keel {

struct NamedTensor {
  std::string name;  // as in a Hugging Face checkpoint
  Tensor value;
};

struct NamedParameter {
  std::string name;
  Parameter value;
};

std::vector<NamedTensor> masters_of(const std::vector<NamedParameter>& parameters);

/// Weights on their way into a network: what there is, and a way to read one as a float32 tensor of the CPU that nobody
/// else holds.
struct WeightSource {
  std::string place;  // for errors
  std::map<std::string, std::vector<int64_t>> shapes;
  std::function<Tensor(const std::string& name)> read;
};

/// How tokens look at each other, in one layer: what each head of [N, heads, D] sees. The network is the same for
/// training (packed sequences) and sampling (a key-value cache); only this differs. Where activations are recomputed, a
/// copy is called again in the backward pass, and must have all that it needs.
using Attend = std::function<Tensor(int64_t layer, const AttentionRule& rule, const Heads& heads)>;

/// What a network that samples in a low precision rounds: the linear layers' weights, once; on every pass the
/// activations that go into them, and keys and values before attention sees them. What is null stays as it is.
struct Rounding {
  Round weights = nullptr, activations = nullptr, keys_and_values = nullptr;
};

/// A causal language model: tokens in, hidden states out; its LM head is apart, so that logits need never be stored.
/// One network for all families; what they differ by is in the configuration.
///
/// It is a bundle of tensor handles: a copy shares the weights.
class CausalLm {
 public:
  /// Random weights: normal with the configuration's initializer_range, norms at 1, biases at 0; a function of the seed
  /// (and, in a last bit, of the device), drawn on the device.
  static CausalLm random(const ModelConfig& config, uint64_t seed, at::Device device);

  /// The same, rounded to a compute type, of which nothing is to be trained but an adapter: one parameter at a time is
  /// there in float32.
  static CausalLm random_frozen(const ModelConfig& config, uint64_t seed, at::Device device, at::ScalarType type);

  /// Takes the weights by their checkpoint names; missing, surplus and misshapen ones are errors (exit code 3).
  static CausalLm load(const ModelConfig& config, const WeightSource& source, at::Device device);

  /// The same from tensors, which are copied.
  static CausalLm from_tensors(const ModelConfig& config, const std::vector<NamedTensor>& tensors, at::Device device,
                               const std::string& place);

  /// Hidden states [N, H] after the final norm, of tokens [N] at positions [N] (both int64).
  Tensor forward(const Tensor& tokens, const Tensor& positions, const Attend& attend) const;

  /// The LM head at a sampling temperature.
  LmHead lm_head(double temperature) const;

  /// Logits [N, V], float32, of hidden states [N, H]; for sampling, where they are needed whole.
  Tensor logits(const Tensor& hidden) const { return softcapped(raw_logits(hidden), config_.logit_softcap); }

  /// The LM head's weight [V, H] as it computes; the embedding itself when they are tied.
  const Tensor& head() const { return head_parameter().compute; }

  /// Every parameter's master once, in the order of the checkpoint's names. Tied heads are not repeated.
  std::vector<NamedTensor> parameters() const { return masters_of(network_parameters()); }

  /// Rounds everything to another compute type, from float32. What is not trained is kept in that type alone, so an
  /// adapter is put on before.
  void compute_in(at::ScalarType type);
  at::ScalarType compute_type() const { return embedding_.compute.scalar_type(); }

  /// Puts a fresh adapter on the layers that the options name, whole or by their ends (B is 0, so that nothing changes
  /// yet) and freezes every other weight.
  void add_adapter(const LoraOptions& options, uint64_t seed);

  /// The same with the adapters that a function gives to layers, each of shape [out, in]; none leaves one as it is.
  using AdapterOf = std::function<std::optional<LowRank>(const std::string& layer, int64_t out, int64_t in)>;
  void put_adapter(const AdapterOf& adapter_of);

  /// The masters of the adapter's tensors, by PEFT's names without its prefix; none without an adapter.
  std::vector<NamedTensor> adapter() const { return masters_of(adapter_parameters()); }

  /// What training changes: the adapter's tensors where there are any, else every parameter.
  std::vector<NamedParameter> trainable() const;

  /// The same network for the training passes of an update: a share of the numbers that go into its adapters is left
  /// out. What is left out depends on the tokens, so that a pass says with dropping_out() which they are; without,
  /// nothing is.
  CausalLm with_dropout(double share, uint64_t seed, uint64_t update) const;
  bool has_dropout() const { return dropout_.share > 0; }
  /// For a pass over tokens [N] of these sequences (numbers below 2^25) at these positions, both int64 on its device.
  CausalLm dropping_out(const Tensor& sequences, const Tensor& positions) const;

  /// The same network with the blocks' linear weights replaced, given in float32 with adapters merged in; everything
  /// else is shared.
  CausalLm with_linear_weights(const std::function<Tensor(const Tensor&)>& replace) const;

  /// The same network in a low precision, for sampling: adapters are merged in, and then the weights rounded.
  CausalLm rounded(const Rounding& rounding) const;

  /// The same network without adapters: their products are added to the weights. Itself where there are none.
  CausalLm merged() const;

  /// From now on sampling and training give the same bits for the same token after the same others: products and
  /// attention add up in one order, whatever else is computed beside them. For float32 on a CPU.
  void make_bitwise();
  bool bitwise() const { return bitwise_; }

  /// From now on a backward pass computes each layer again from its input, and nothing else of a layer is kept.
  void recompute_activations() { recompute_activations_ = true; }
  bool recomputes_activations() const { return recompute_activations_; }

  /// From now on an adapter is applied in sampling as in training, for where merging rounds away too much of it.
  void keep_adapter_apart() { adapter_apart_ = true; }
  /// Whether sampling merges an adapter that training applies on the way.
  bool samples_merged() const { return !bitwise_ && !adapter_apart_ && !adapter().empty(); }

  /// The same network as it is now, for sampling alone: adapters merged (unless they are kept apart or it is bitwise),
  /// layers with one input joined to one product and, on a CPU in float32, weights laid out for few rows at a time.
  CausalLm for_sampling() const;

  /// The same network with its adapter off; the weights are shared.
  CausalLm without_adapter() const;

  /// The policy as it is now, whatever training does later: what training changes is copied, everything else is shared.
  /// An adapter that adds nothing yet (all B are 0) is off.
  CausalLm frozen() const;

  /// The masters as they are now in host memory, to be saved while training goes on: what it changes is copied, and so
  /// is what lies on another device.
  CausalLm copied_to_host() const;

  /// The same for sampling later what would be sampled now, adapters included. The float32 masters are copied where
  /// the sampler is made from them: `with_masters`.
  CausalLm snapshot(bool with_masters) const;

  const ModelConfig& config() const { return config_; }
  at::Device device() const { return embedding_.compute.device(); }

 private:
  struct Block {
    Parameter input_norm, query_norm, key_norm, attention_norm, mlp_norm, output_norm;
    Linear query, key, value, output, gate, up, down;
    JoinedLinear query_key_value, gate_up;  // where the network only samples
    AttentionRule rule;
    bool slides = false;
  };
  using Visitor = std::function<void(const std::string& name, Parameter& weight, std::vector<int64_t> shape)>;
  using LinearVisitor = std::function<void(const std::string& name, Linear& layer)>;

  explicit CausalLm(const ModelConfig& config, at::Device device);
  static CausalLm random_with(const ModelConfig& config, uint64_t seed, at::Device device,
                              const std::function<Tensor(const Tensor& start)>& weight_of);
  void visit(const Visitor& visitor);
  void visit_linears(const LinearVisitor& visitor);
  const Parameter& head_parameter() const { return config_.tie_word_embeddings ? embedding_ : head_; }
  std::vector<NamedParameter> network_parameters() const;
  CausalLm with_own(const std::function<void(Parameter& trained)>& own) const;
  std::vector<NamedParameter> adapter_parameters() const;
  Tensor norm_weight(const Parameter& weight) const;
  Tensor norm(const Tensor& x, const Parameter& weight) const;
  Tensor attention(int64_t layer, const Tensor& x, const Angles& angles, const Attend& attend) const;
  Tensor mlp(const Block& block, const Tensor& x) const;
  Residual layer(size_t index, const Residual& in, const Angles& angles, const Attend& attend) const;
  Tensor raw_logits(const Tensor& hidden) const;

  ModelConfig config_;
  Parameter embedding_, final_norm_, head_;
  std::vector<Block> blocks_;
  bool bitwise_ = false, adapter_apart_ = false, recompute_activations_ = false;
  Dropout dropout_;
  PanelWeight head_panels_;  // of the head, where the network only samples
  Round round_keys_and_values_ = nullptr;
  Tensor frequencies_, sliding_frequencies_;  // [D / 2] of the rotary embedding; the latter where it differs
};

}  // namespace keel
