#include "keel/ops/precision.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "keel/core/tensor/precision.h"
#include "keel/ops/ordered_linear.h"

namespace keel {
namespace {

/// The compute tensor in the place of its master: what comes back is added to the master's gradient, in float32.
struct InPlaceOfMaster : torch::autograd::Function<InPlaceOfMaster> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor&, const Tensor& compute) {
    return compute.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0].to(at::kFloat), Tensor()};
  }
};

Tensor product(const Tensor& x, const Tensor& weight, bool ordered) {
  return ordered ? ordered_linear(x, weight) : at::linear(x, weight);
}

/// What would come back for the weight is in its master's gradient already.
struct LinearIntoMaster : torch::autograd::Function<LinearIntoMaster> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& master,
                        const Tensor& compute, bool ordered) {
    context->save_for_backward({x, compute});
    context->saved_data["master"] = master;
    return product(x, compute, ordered);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &compute = saved[1], &dy = gradients[0];
    Tensor& gradient = context->saved_data["master"].toTensor().mutable_grad();
    if (!gradient.defined()) gradient = at::zeros(compute.sizes(), compute.options().dtype(at::kFloat));
    add_wide_product(gradient, dy.t(), x);
    return {context->needs_input_grad(0) ? dy.mm(compute) : Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor trained_linear(const Tensor& x, const Parameter& weight, bool ordered) {
  if (at::GradMode::is_enabled() && weight.is_rounded() && weight.master.requires_grad() && x.dim() == 2 &&
      multiplies_narrow(weight.compute))
    return LinearIntoMaster::apply(x, weight.master, weight.compute, ordered);
  return product(x, weight.forward(), ordered);
}

bool multiplies_narrow(const Tensor& x) { return x.is_cuda() && is_narrow(x.scalar_type()); }

Tensor Parameter::forward() const {
  if (!is_rounded() || !at::GradMode::is_enabled() || !master.requires_grad()) return compute;
  return InPlaceOfMaster::apply(master, compute);
}

void Parameter::compute_in(at::ScalarType type) {
  if (!defined() || compute.scalar_type() == type) return;
  const Tensor rounded = master.detach().to(type);
  if (master.requires_grad())
    compute = rounded;
  else
    *this = rounded;
}

Tensor wide_linear(const Tensor& x, const Tensor& weight) {
  if (multiplies_narrow(weight)) return at::mm(x, weight.t(), at::kFloat);
  return at::linear(x.to(at::kFloat), weight.to(at::kFloat));
}

void wide_product_out(Tensor& out, const Tensor& a, const Tensor& b) {
  if (multiplies_narrow(b))
    at::mm_out(out, a.to(b.scalar_type()), b, at::kFloat);
  else
    at::matmul_out(out, a, b.to(at::kFloat));
}

void add_wide_product(Tensor& sum, const Tensor& a, const Tensor& b) {
  if (multiplies_narrow(b))
    at::addmm_out(sum, sum, a.to(b.scalar_type()), b, at::kFloat);
  else
    sum.addmm_(a, b.to(at::kFloat));
}

}  // namespace keel
