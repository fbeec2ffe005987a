#pragma once

#include "keel/core/tensor/tensor.h"

// What is computed in which type. A network multiplies and keeps its activations in the compute type; float32 are the
// masters of its weights and their gradients, the statistics of norms, the angles of positions, the softmax, logits,
// log-probabilities and values.

namespace keel {

/// A weight. The master is what is trained, clipped and saved, in float32; the compute tensor is what a forward pass
/// multiplies with, rounded from the master after every update. The two are one tensor where there is nothing to round:
/// where the compute type is float32, and where the weight is frozen, so that nobody needs more of it.
struct Parameter {
  Tensor master, compute;

  Parameter() = default;
  Parameter(Tensor weight) : master(weight), compute(std::move(weight)) {}

  bool defined() const { return compute.defined(); }
  bool is_rounded() const { return !master.is_same(compute); }

  /// What a forward pass multiplies with. Gradients go to the master, and are added there in float32.
  Tensor forward() const;

  /// Rounds it to another compute type; of a weight that is not trained only that is kept. A copy that shares this
  /// weight does not follow.
  void compute_in(at::ScalarType type);
};

// Products in float32 of matrices that may be narrower. A GPU multiplies narrow ones as they are and sums in float32;
// a CPU widens them first.

/// x W^T of rows [N, in] and a weight [out, in] of the same type.
Tensor wide_linear(const Tensor& x, const Tensor& weight);

/// x W^T of rows [N, in] and a weight [out, in] that is trained, in the weight's compute type. Where a GPU can, the
/// gradient is added to the master's by the product that computes it, in float32. `ordered`: as ordered_linear adds up.
Tensor trained_linear(const Tensor& x, const Parameter& weight, bool ordered = false);

/// Whether products with this matrix are made of narrow numbers as they are.
bool multiplies_narrow(const Tensor& x);

/// out = a b, with out in float32.
void wide_product_out(Tensor& out, const Tensor& a, const Tensor& b);

/// sum += a b, with sum in float32.
void add_wide_product(Tensor& sum, const Tensor& a, const Tensor& b);

}  // namespace keel
