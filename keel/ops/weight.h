#pragma once

#include <memory>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"

// A network multiplies and keeps its activations in the compute type of its weights. Float32 are the masters of trained
// weights and their gradients, the statistics of norms, the angles of positions, the softmax, logits, log-probabilities
// and values.

namespace keel {

/// The sum of a weight's gradients, in float32.
class GradientSink {
 public:
  /// Sums into this tensor.
  explicit GradientSink(Tensor sum);

  const Tensor& sum() const { return sum_; }
  void add(const Tensor& gradient) { sum_.add_(gradient); }
  /// Adds the product a b of matrices that may be narrower, without a tensor in between.
  void add_product(const Tensor& a, const Tensor& b);

  /// An autograd leaf without elements. A forward pass through the weight depends on it, so that a backward pass
  /// reaches the sink.
  const Tensor& leaf() const { return leaf_; }

 private:
  Tensor sum_, leaf_;
};

/// A weight of a network, in the type that it computes in; only the weight knows how it is stored. It is a handle, as a
/// tensor is: copies are the same weight. While a sink for it exists, backward passes add its gradient there.
class Weight {
 public:
  Weight() = default;
  Weight(Tensor value) : state_(std::make_shared<State>(State{std::move(value), {}})) {}

  bool defined() const { return state_ != nullptr; }
  bool is_same(const Weight& other) const { return state_ == other.state_; }
  at::IntArrayRef shape() const { return value().sizes(); }
  at::ScalarType type() const { return value().scalar_type(); }
  at::Device device() const { return value().device(); }

  /// The numbers, outside of autograd.
  const Tensor& value() const { return state_->value; }
  void set_value(Tensor value) const { state_->value = std::move(value); }

  void set_sink(const std::shared_ptr<GradientSink>& sink) const { state_->sink = sink; }
  /// Null where the weight is frozen.
  std::shared_ptr<GradientSink> sink() const { return state_->sink.lock(); }

  /// The numbers for a forward pass, whose gradient goes to the sink in float32.
  Tensor forward() const;

  /// The rows of these indices [N] int64. `padding`, unless it is -1, is a row that does not learn.
  Tensor rows(const Tensor& indices, int64_t padding) const;

  /// x W^T + b of rows [N, in] and a weight [out, in], in the weight's type. Where a GPU can, the product that computes
  /// the gradient adds it to the sink in float32. `deterministic`: as deterministic_linear adds up.
  Tensor linear(const Tensor& x, const Weight& bias = {}, bool deterministic = false) const;
  /// x W^T in float32, without gradients. A GPU multiplies narrow numbers as they are; a CPU widens them first.
  Tensor linear_to_float32(const Tensor& x, bool deterministic = false) const;

  /// dy W, the gradient of linear()'s x.
  Tensor input_gradient(const Tensor& dy) const { return dy.mm(value()); }
  /// The same in float32, into `out`.
  void input_gradient_to_float32(Tensor& out, const Tensor& dy) const;
  /// The type in which a product with the weight takes rows that are to be multiplied in float32.
  at::ScalarType product_type() const;

 private:
  /// The sink, where gradients are recorded.
  std::shared_ptr<GradientSink> active_sink() const;

  struct State {
    Tensor value;
    std::weak_ptr<GradientSink> sink;
  };
  std::shared_ptr<State> state_;
};

/// A weight by its name in a checkpoint.
struct NamedWeight {
  std::string name;
  Weight weight;
};

/// Owns the gradient sums of weights, which are trained while it exists. A weight has at most one sink.
class GradientSinks {
 public:
  explicit GradientSinks(const std::vector<NamedWeight>& weights);

  /// The sum of each weight's gradients, in the order of the weights.
  std::vector<Tensor> sums() const;
  void clear() const;

 private:
  std::vector<std::shared_ptr<GradientSink>> sinks_;
};

}  // namespace keel
