#include "keel/model/network/recompute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kLayer = "layer";

struct SavedLayer : torch::CustomClassHolder {
  explicit SavedLayer(LayerFunction function) : layer(std::move(function)) {}
  LayerFunction layer;
};

struct CheckpointedLayer : torch::autograd::Function<CheckpointedLayer> {
  static variable_list forward(AutogradContext* context, const Tensor& sum, const Tensor& normed, const Tensor&,
                               const LayerFunction& layer) {
    context->save_for_backward({sum, normed});
    context->saved_data[kLayer] = c10::IValue::make_capsule(c10::make_intrusive<SavedLayer>(layer));
    context->set_materialize_grads(false);
    const Residual out = layer({sum, normed});  // autograd is off here
    return {out.sum, out.normed};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto leaf_copy = [](const Tensor& input) { return input.detach().requires_grad_(input.requires_grad()); };
    const Residual in{leaf_copy(saved[0]), leaf_copy(saved[1])};
    const auto stored = context->saved_data[kLayer].toCapsule();
    Residual out;
    {
      const at::AutoGradMode with_gradients(true);
      out = static_cast<const SavedLayer&>(*stored).layer(in);
    }
    variable_list results, result_gradients;  // of used results that need a gradient
    for (const auto& [result, gradient] : {std::pair{out.sum, gradients[0]}, {out.normed, gradients[1]}})
      if (gradient.defined() && result.requires_grad()) results.push_back(result), result_gradients.push_back(gradient);
    if (!results.empty())                                    // otherwise no gradient is needed
      torch::autograd::backward(results, result_gradients);  // accumulates the gradients of the parameters
    return {in.sum.grad(), in.normed.grad(), Tensor(), Tensor()};
  }
};

}  // namespace

Residual checkpoint_layer(const LayerFunction& layer, const Residual& in) {
  // Without an input that requires grad, autograd would skip a layer whose weights are trainable.
  const Tensor grad_trigger = at::empty({0}, in.sum.options()).requires_grad_();
  const variable_list out = CheckpointedLayer::apply(in.sum, in.normed, grad_trigger, layer);
  return {out[0], out[1]};
}

}  // namespace keel
