#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/activation.h"
#include "keel/model/network/master_weights.h"
#include "keel/ops/dropout.h"
#include "keel/ops/packed_weight.h"

namespace keel {

/// A low-rank adapter: scale B A is added to a weight.
struct LowRank {
  Tensor a, b;  // [rank, in], [out, rank]
  double scale = 0;
};

/// Rounds numbers to fewer bits, for a sampler of low precision.
using Round = Tensor (*)(const Tensor&);

/// A linear layer, with a low-rank adapter where one was added (LoRA, arXiv 2106.09685): W x + b + scale B A x.
struct Linear {
  Weight weight, bias;    // [out, in], [out] or none
  Weight lora_a, lora_b;  // [rank, in], [out, rank], or none
  double lora_scale = 0;

  /// `deterministic`: products add up in one order, in training as in sampling. The dropout is that of the adapter's input.
  Tensor operator()(const Tensor& input, bool deterministic, const Dropout& dropout = {}) const;
  /// W + scale B A in float32, of the masters.
  Tensor merged_weight(const MasterWeights& masters) const;
};

/// How the linear layers of a sampler compute.
struct SamplingProducts {
  bool deterministic = false;
  Round round_input = nullptr;  // before each product
  bool packed = false;          // float32 on a CPU: weights are copied into panels for products of few rows
};

/// A linear layer that only samples.
class SamplerLinear {
 public:
  SamplerLinear(const Linear& layer, const SamplingProducts& products, PackedWeightMemory& memory);
  Tensor operator()(const Tensor& input) const;

 private:
  Linear layer_;
  SamplingProducts products_;
  PackedWeight packed_, packed_a_, packed_b_;
};

/// Several layers with one input as one product, where they only sample.
class FusedLinear {
 public:
  /// None of them has an adapter. Weights that are adjacent in memory (as join() leaves them) are not copied, except
  /// into panels.
  FusedLinear(const std::vector<const Linear*>& layers, const SamplingProducts& products, PackedWeightMemory& memory);

  /// The outputs of the layers for the rows [N, in], side by side: [N, out of all].
  Tensor operator()(const Tensor& input) const;
  /// activation(gate) * up, of two layers of which the first is the gate.
  Tensor gated(Activation activation, const Tensor& input) const;

 private:
  SamplingProducts products_;
  PackedWeight packed_;    // packed
  Tensor weight_, bias_;  // otherwise
};

/// Makes the weights of several layers adjacent in memory.
void join(const std::vector<const Linear*>& layers);

}  // namespace keel
