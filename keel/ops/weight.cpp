#include "keel/ops/weight.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>

#include "keel/core/tensor/precision.h"
#include "keel/ops/deterministic_linear.h"
#include "keel/ops/layer_ops.h"

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Returns whether GEMMs with this matrix multiply bf16 or fp16 directly.
bool multiplies_narrow(const Tensor& x) { return x.is_cuda() && is_narrow(x.scalar_type()); }

/// Context of the backward pass of a trainable weight.
struct TrainedWeight : torch::CustomClassHolder {
  TrainedWeight(Weight w, std::shared_ptr<GradientSink> s) : weight(std::move(w)), sink(std::move(s)) {}
  Weight weight, bias;  // the bias of a linear layer, or none
  std::shared_ptr<GradientSink> sink, bias_sink;
};
using TrainedWeightPtr = c10::intrusive_ptr<TrainedWeight>;

void save_weight(AutogradContext* context, const TrainedWeightPtr& trained) {
  context->saved_data["weight"] = c10::IValue::make_capsule(trained);
}
const TrainedWeight& saved_weight(AutogradContext* context) {
  return static_cast<const TrainedWeight&>(*context->saved_data["weight"].toCapsule());
}

/// Returns the weight's value; adds its gradient to the sink.
struct ValueToSink : torch::autograd::Function<ValueToSink> {
  static Tensor forward(AutogradContext* context, const Tensor& /*leaf*/, const TrainedWeightPtr& trained) {
    save_weight(context, trained);
    return trained->weight.value().detach();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    saved_weight(context).sink->add(gradients[0].to(at::kFloat));
    return {Tensor(), Tensor()};
  }
};

/// Embedding lookup; sums the gradient in float32 for any dtype of the weight.
struct EmbeddingToSink : torch::autograd::Function<EmbeddingToSink> {
  static Tensor forward(AutogradContext* context, const Tensor& /*leaf*/, const Tensor& indices, int64_t padding,
                        const TrainedWeightPtr& trained) {
    save_weight(context, trained);
    context->save_for_backward({indices});
    context->saved_data["padding"] = padding;
    return at::embedding(trained->weight.value(), indices, padding);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    GradientSink& sink = *saved_weight(context).sink;
    sink.add(at::embedding_dense_backward(gradients[0].to(at::kFloat), context->get_saved_variables()[0],
                                          sink.sum().size(0), context->saved_data["padding"].toInt(),
                                          /*scale_grad_by_freq=*/false));
    return {Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor multiply(const Tensor& x, const Tensor& weight, const Tensor& bias, bool deterministic) {
  if (!deterministic) return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  const Tensor y = deterministic_linear(x, weight);
  return bias.defined() ? y + bias : y;
}

/// A linear layer whose weight gradient is accumulated into the sink by its GEMM, in float32.
struct LinearToSink : torch::autograd::Function<LinearToSink> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& /*leaf*/, bool deterministic,
                        const TrainedWeightPtr& trained) {
    save_weight(context, trained);
    context->save_for_backward({x});
    const Weight& bias = trained->bias;
    return multiply(x, trained->weight.value(), bias.defined() ? bias.value() : Tensor(), deterministic);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const TrainedWeight& trained = saved_weight(context);
    const Tensor& dy = gradients[0];
    trained.sink->add_product(dy.t(), context->get_saved_variables()[0]);
    if (trained.bias_sink) trained.bias_sink->add(dy.sum(0, /*keepdim=*/false, at::kFloat));
    return {context->needs_input_grad(0) ? trained.weight.input_gradient(dy) : Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

GradientSink::GradientSink(Tensor sum) : sum_(std::move(sum)), leaf_(at::empty({0}, sum_.options()).requires_grad_()) {}

void GradientSink::add_product(const Tensor& a, const Tensor& b) {
  if (multiplies_narrow(b))
    at::addmm_out(sum_, sum_, a.to(b.scalar_type()), b, at::kFloat);
  else
    sum_.addmm_(a.to(at::kFloat), b.to(at::kFloat));
}

std::shared_ptr<GradientSink> Weight::active_sink() const { return at::GradMode::is_enabled() ? sink() : nullptr; }

Tensor Weight::forward() const {
  const std::shared_ptr<GradientSink> sink = active_sink();
  return sink ? ValueToSink::apply(sink->leaf(), c10::make_intrusive<TrainedWeight>(*this, sink)) : value();
}

Tensor Weight::embed(const Tensor& indices, int64_t padding) const {
  const std::shared_ptr<GradientSink> sink = active_sink();
  return sink ? EmbeddingToSink::apply(sink->leaf(), indices, padding, c10::make_intrusive<TrainedWeight>(*this, sink))
              : at::embedding(value(), indices, padding);
}

Tensor Weight::linear(const Tensor& x, const Weight& bias, bool deterministic) const {
  const Tensor b = bias.defined() ? bias.forward() : Tensor();
  if (!deterministic && !at::GradMode::is_enabled()) return keel::linear(x, value(), b);
  const std::shared_ptr<GradientSink> sink = active_sink();
  if (!sink || x.dim() != 2 || !is_narrow(type())) return multiply(x, forward(), b, deterministic);
  auto trained = c10::make_intrusive<TrainedWeight>(*this, sink);
  trained->bias = bias;
  if (bias.defined()) trained->bias_sink = bias.active_sink();
  return LinearToSink::apply(x, sink->leaf(), deterministic, trained);
}

Tensor Weight::linear_to_float32(const Tensor& x, bool deterministic) const {
  if (deterministic) return deterministic_linear_to_float32(x, value());
  if (multiplies_narrow(value())) return at::mm(x, value().t(), at::kFloat);
  return at::linear(x.to(at::kFloat), value().to(at::kFloat));
}

void Weight::input_gradient_to_float32(Tensor& out, const Tensor& dy) const {
  if (multiplies_narrow(value()))
    at::mm_out(out, dy.to(type()), value(), at::kFloat);
  else
    at::matmul_out(out, dy, value().to(at::kFloat));
}

at::ScalarType Weight::gemm_type() const { return multiplies_narrow(value()) ? type() : at::kFloat; }

GradientSinks::GradientSinks(const std::vector<NamedWeight>& weights) {
  for (const NamedWeight& weight : weights) {
    if (weight.weight.sink()) throw std::logic_error(weight.name + " is trained by another optimizer already");
    const at::TensorOptions options = at::TensorOptions(at::kFloat).device(weight.weight.device());
    sinks_.push_back(std::make_shared<GradientSink>(at::zeros(weight.weight.shape(), options)));
    weight.weight.set_sink(sinks_.back());
  }
}

std::vector<Tensor> GradientSinks::sums() const {
  std::vector<Tensor> sums;
  for (const auto& sink : sinks_) sums.push_back(sink->sum());
  return sums;
}

void GradientSinks::clear() const {
  for (const auto& sink : sinks_) Tensor(sink->sum()).zero_();
}

}  // namespace keel
