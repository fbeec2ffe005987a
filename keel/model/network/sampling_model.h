#pragma once

#include <string>

#include "keel/model/network/transformer.h"
#include "keel/ops/packed_weight.h"

namespace keel {

/// What a sampler of low precision rounds: the linear layers' weights, once; in every pass their inputs, and keys and
/// values before attention reads them. Null: nothing.
struct Rounding {
  Round weights = nullptr, activations = nullptr, keys_and_values = nullptr;
};

/// The weights that samples are drawn with: the network's as training computes them, and the masters that merged or
/// rounded ones are made of.
struct SamplerWeights {
  ModelWeights weights;
  MasterWeights masters = {};
  ExecutionOptions execution = {};

  /// Whether sampling merges an adapter that training applies on the way.
  bool merges() const { return weights.has_adapter() && !execution.bitwise && !execution.separate_adapter; }
  /// As they are now, whatever training does later. Masters are copied only if a sampler is made of them.
  SamplerWeights snapshot(bool with_masters) const;
};

/// A network for sampling alone: adapters merged (unless they are kept apart), layers with one input joined to one
/// product and, on a CPU in float32, weights packed for products of few rows.
class SamplingModel : public Transformer {
 public:
  SamplingModel(const SamplerWeights& from, const Rounding& rounding = {});

  Tensor forward(const ForwardInput& input) const override;

  /// Logits [N, V], float32, of hidden states [N, H].
  Tensor logits(const Tensor& hidden) const;

 private:
  SamplingModel(const ModelWeights& weights, const ExecutionOptions& execution, const Rounding& rounding,
                PackedWeightMemory memory);

  Round round_keys_and_values_;
  PackedWeight packed_head_;  // on a CPU in float32
};

}  // namespace keel
