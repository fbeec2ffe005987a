#include "keel/model/network/recompute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kLayer = "layer";

struct KeptLayer : torch::CustomClassHolder {
  explicit KeptLayer(Layer function) : layer(std::move(function)) {}
  Layer layer;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static variable_list forward(AutogradContext* context, const Tensor& sum, const Tensor& normed, const Tensor&,
                               const Layer& layer) {
    context->save_for_backward({sum, normed});
    context->saved_data[kLayer] = c10::IValue::make_capsule(c10::make_intrusive<KeptLayer>(layer));
    context->set_materialize_grads(false);
    const Residual out = layer({sum, normed});  // gradients are off in here
    return {out.sum, out.normed};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto again = [](const Tensor& input) { return input.detach().requires_grad_(input.requires_grad()); };
    const Residual in{again(saved[0]), again(saved[1])};
    const auto kept = context->saved_data[kLayer].toCapsule();
    Residual out;
    {
      const at::AutoGradMode with_gradients(true);
      out = static_cast<const KeptLayer&>(*kept).layer(in);
    }
    variable_list results, theirs;  // what nobody used has no gradient, and below the first adapter nothing learns
    for (const auto& [result, gradient] : {std::pair{out.sum, gradients[0]}, {out.normed, gradients[1]}})
      if (gradient.defined() && result.requires_grad()) results.push_back(result), theirs.push_back(gradient);
    if (!results.empty()) torch::autograd::backward(results, theirs);  // the parameters' gradients are added here
    return {in.sum.grad(), in.normed.grad(), Tensor(), Tensor()};
  }
};

}  // namespace

Residual recomputed(const Layer& layer, const Residual& in) {
  // Without an input that learns a layer would not be part of the graph, though its weights or its adapter learn.
  const Tensor learns = at::empty({0}, in.sum.options()).requires_grad_();
  const variable_list out = Recomputed::apply(in.sum, in.normed, learns, layer);
  return {out[0], out[1]};
}

}  // namespace keel
