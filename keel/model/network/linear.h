#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/activation.h"
#include "keel/model/network/master_weights.h"
#include "keel/ops/dropout.h"
#include "keel/ops/layer_ops.h"
#include "keel/ops/packed_weight.h"

namespace keel {

/// The matrices of a LoRA adapter, which adds scale B A to a weight.
struct LoraMatrices {
  Tensor a, b;  // [rank, in], [out, rank]
  double scale = 0;
};

/// Rounds a tensor to a low-precision format, for low-precision sampling.
using RoundFunction = Tensor (*)(const Tensor&);

/// A linear layer with an optional LoRA adapter (arXiv 2106.09685): W x + b + scale B A x.
struct Linear {
  Weight weight, bias;    // [out, in], [out] or none
  Weight lora_a, lora_b;  // [rank, in], [out, rank], or none
  double lora_scale = 0;

  /// `deterministic`: training and sampling sum in the same order. The dropout applies to the input of the adapter.
  Tensor operator()(const Tensor& input, bool deterministic, const Dropout& dropout = {}) const;
  /// scale B A x, the adapter's part of the output.
  Tensor adapter_output(const Tensor& x, bool deterministic) const;
  /// Computes W + scale B A in float32 from the master weights.
  Tensor merged_weight(const MasterWeights& masters) const;
};

struct SamplingMatmulOptions {
  bool deterministic = false;
  RoundFunction round_input = nullptr;  // applied to the input of each matmul
  bool pack_weights = false;            // copies weights into panels for skinny GEMMs; only float32 on CPU
};

/// Linear layers with the same input and their adapters, computed as one matmul, for sampling.
class FusedLinear {
 public:
  /// Weights that are adjacent in memory are used in place, unless pack_weights. Adapters are copied.
  FusedLinear(const std::vector<const Linear*>& layers, const SamplingMatmulOptions& options,
              PackedWeightMemory& memory);

  /// Maps [N, in] to the concatenated outputs of the layers, [N, sum of out].
  Tensor operator()(const Tensor& input) const;
  /// activation(gate) * up, for the two layers {gate, up}.
  Tensor gated(Activation activation, const Tensor& input) const;

 private:
  SamplingMatmulOptions options_;
  std::vector<Linear> layers_;  // with adapters, if deterministic or pack_weights
  PackedWeight packed_;         // if pack_weights
  Tensor weight_, bias_;        // otherwise
  AdapterMatrices adapter_;     // of all layers, or none
};

/// Moves the layers' weights into one tensor, and their biases, so that FusedLinear does not copy them.
void make_adjacent(const std::vector<const Linear*>& layers);

}  // namespace keel
