#pragma once

#include <memory>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"

// GEMMs and activations use the compute dtype of the weights. Master weights, gradients, norm statistics, rotary
// angles, softmax, logits, log-probs and values are float32.

namespace keel {

/// Accumulates a weight's gradients in float32.
class GradientSink {
 public:
  /// Accumulates into `sum`.
  explicit GradientSink(Tensor sum);

  const Tensor& sum() const { return sum_; }
  void add(const Tensor& gradient) { sum_.add_(gradient); }
  /// Adds the matrix product a b in one GEMM. The matrices may be bf16 or fp16.
  void add_product(const Tensor& a, const Tensor& b);

  /// An empty autograd leaf that forward passes through the weight depend on, so that autograd runs their backward.
  const Tensor& leaf() const { return leaf_; }

 private:
  Tensor sum_, leaf_;
};

/// A weight in its compute dtype. It is a handle like a tensor: copies refer to the same weight. While its sink exists,
/// backward passes add the weight's gradient to it.
class Weight {
 public:
  Weight() = default;
  Weight(Tensor value) : state_(std::make_shared<State>(State{std::move(value), {}})) {}

  bool defined() const { return state_ != nullptr; }
  bool is_same(const Weight& other) const { return state_ == other.state_; }
  at::IntArrayRef shape() const { return value().sizes(); }
  at::ScalarType type() const { return value().scalar_type(); }
  at::Device device() const { return value().device(); }

  /// The value, outside of autograd.
  const Tensor& value() const { return state_->value; }
  void set_value(Tensor value) const { state_->value = std::move(value); }

  void set_sink(const std::shared_ptr<GradientSink>& sink) const { state_->sink = sink; }
  /// Null if the weight is frozen.
  std::shared_ptr<GradientSink> sink() const { return state_->sink.lock(); }

  /// The value as part of the autograd graph; its gradient is added to the sink.
  Tensor forward() const;

  /// Embedding lookup of indices [N] int64. Row `padding` gets no gradient; -1: none.
  Tensor embed(const Tensor& indices, int64_t padding) const;

  /// x W^T + b for x [N, in] and a weight [out, in], in the weight's dtype. The GEMM of a bf16 or fp16 weight's
  /// gradient accumulates directly into the sink, in float32. `deterministic`: uses deterministic_linear().
  Tensor linear(const Tensor& x, const Weight& bias = {}, bool deterministic = false) const;
  /// x W^T with a float32 result, without gradients. A GPU multiplies bf16 and fp16 directly; a CPU converts them
  /// first.
  Tensor linear_to_float32(const Tensor& x, bool deterministic = false) const;

  /// dy W, the gradient of x in linear().
  Tensor input_gradient(const Tensor& dy) const { return dy.mm(value()); }
  /// Writes dy W to `out`, which is float32. dy is multiplied in gemm_type().
  void input_gradient_to_float32(Tensor& out, const Tensor& dy) const;
  /// The dtype in which input_gradient_to_float32() multiplies dy.
  at::ScalarType gemm_type() const;

 private:
  /// The sink if autograd is enabled, else null.
  std::shared_ptr<GradientSink> active_sink() const;

  struct State {
    Tensor value;
    std::weak_ptr<GradientSink> sink;
  };
  std::shared_ptr<State> state_;
};

/// A weight and its name in a checkpoint.
struct NamedWeight {
  std::string name;
  Weight weight;
};

/// Owns the gradient sinks of weights, which are trainable while it exists. A weight has at most one sink.
class GradientSinks {
 public:
  explicit GradientSinks(const std::vector<NamedWeight>& weights);

  /// The accumulated gradients, in the order of the weights.
  std::vector<Tensor> sums() const;
  void clear() const;

 private:
  std::vector<std::shared_ptr<GradientSink>> sinks_;
};

}  // namespace keel
