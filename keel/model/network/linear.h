#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/activation.h"
#include "keel/ops/dropout.h"
#include "keel/ops/panel_weight.h"
#include "keel/ops/precision.h"

namespace keel {

/// A low-rank adapter: scale B A is added to a weight.
struct LowRank {
  Tensor a, b;  // [rank, in], [out, rank]
  double scale = 0;
};

/// What rounds numbers to fewer bits, where a network samples in a low precision.
using Round = Tensor (*)(const Tensor&);

/// A linear layer, with a low-rank adapter where one was added (LoRA, arXiv 2106.09685): W x + b + scale B A x.
struct Linear {
  Parameter weight, bias;    // [out, in], [out] or undefined
  Parameter lora_a, lora_b;  // [rank, in], [out, rank]; undefined: no adapter
  double lora_scale = 0;
  Dropout dropout = {};                                   // of what goes into the adapter
  bool bitwise = false;                                   // products add up in one order, in training as in sampling
  Round round_input = nullptr;                            // before the product, where there is one
  PanelWeight panels = {}, panels_a = {}, panels_b = {};  // the weights again where they only sample, on a CPU

  Tensor operator()(const Tensor& input) const;
  /// Lays the weights out for few rows at a time; they only sample from then on.
  void make_panels(PanelMemory& memory);
  /// W + scale B A.
  Tensor merged_weight() const;
};

/// Several layers with one input as one product, where they only sample.
class JoinedLinear {
 public:
  JoinedLinear() = default;
  /// None of them has an adapter. Weights that stand one after the other (as join() leaves them) are not copied, except
  /// into panels.
  JoinedLinear(const std::vector<const Linear*>& layers, PanelMemory& memory);

  bool defined() const { return panels_.defined() || weight_.defined(); }
  /// What each layer makes of the rows [N, in], side by side: [N, out of all].
  Tensor operator()(const Tensor& input) const;
  /// activation(gate) * up, of two layers of which the first is the gate.
  Tensor gated(Activation activation, const Tensor& input) const;

 private:
  PanelWeight panels_;  // on a CPU in float32
  Tensor weight_;       // elsewhere
  Tensor bias_;
  bool bitwise_ = false;
  Round round_input_ = nullptr;
};

/// Puts what several layers multiply with one after the other in memory, where that is not what is trained itself.
void join(const std::vector<Linear*>& layers);

}  // namespace keel
