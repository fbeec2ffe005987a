#pragma once

#include <string>

#include "keel/core/tensor/precision.h"
#include "keel/model/network/transformer.h"
#include "keel/ops/packed_weight.h"

namespace keel {

/// The rounding of a low-precision sampler: weights of linear layers (once), their inputs, and keys and values (in
/// every forward pass). Null: no rounding.
struct Rounding {
  RoundFunction weights = nullptr, activations = nullptr, keys_and_values = nullptr;
};

/// The weights for sampling, and the masters from which merged or rounded weights are computed.
struct SamplerWeights {
  ModelWeights weights;
  MasterWeights masters = {};
  ExecutionOptions execution = {};

  /// In bf16 and fp16 rounding would lose most of a small update, so the adapter is applied apart.
  bool merges_adapter() const {
    return weights.has_adapter() && !execution.bitwise && !is_narrow(weights.compute_type());
  }
  /// A copy that later training does not change. `with_masters`: copies the masters, too.
  SamplerWeights snapshot(bool with_masters) const;
};

/// A network for sampling: float32 adapters are merged (unless `bitwise`), linear layers with the same input are fused,
/// and float32 weights on a CPU are packed for skinny GEMMs.
class SamplingModel : public Transformer {
 public:
  SamplingModel(const SamplerWeights& from, const Rounding& rounding = {});

  Tensor forward(const ForwardInput& input) const override;

  /// The float32 logits [N, V] of hidden states [N, H].
  Tensor logits(const Tensor& hidden) const;

 private:
  SamplingModel(const ModelWeights& weights, const ExecutionOptions& execution, const Rounding& rounding,
                PackedWeightMemory memory);

  RoundFunction round_keys_and_values_;
  PackedWeight packed_head_;  // on a CPU in float32
};

}  // namespace keel
