#include "keel/ops/panel_linear.h"

#include <ATen/ATen.h>

#include <torch/csrc/autograd/custom_function.h>

#include "keel/kernels/cpu/panel_product.h"
#include "keel/ops/for_rows.h"
#include "keel/ops/huge_pages.h"

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PanelLinear : torch::autograd::Function<PanelLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight) {
    context->save_for_backward({x, weight});
    return PanelWeight(weight)(x);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &dy = gradients[0];
    return {context->needs_input_grad(0) ? dy.mm(weight) : Tensor(),
            context->needs_input_grad(1) ? dy.t().mm(x) : Tensor()};
  }
};

}  // namespace

PanelWeight::PanelWeight(const Tensor& weight) : outputs_(weight.size(0)), inputs_(weight.size(1)) {
  const at::NoGradGuard no_grad;
  const Tensor from = weight.contiguous();
  panels_ = at::empty({cpu::panel_count(outputs_), inputs_, cpu::kPanel}, from.options());
  prefer_huge_pages(panels_);
  float* const to = panels_.mutable_data_ptr<float>();
  for_rows(panels_.size(0), inputs_ * cpu::kPanel, [&](int64_t first, int64_t count) {
    cpu::pack_panels(from.const_data_ptr<float>(), outputs_, inputs_, first, count, to);
  });
}

Tensor PanelWeight::operator()(const Tensor& x) const {
  const Tensor rows = x.contiguous();
  Tensor y = at::empty({rows.size(0), outputs_}, rows.options());
  const float *from = rows.const_data_ptr<float>(), *panels = panels_.const_data_ptr<float>();
  float* const to = y.mutable_data_ptr<float>();
  for_rows(panels_.size(0), rows.size(0) * inputs_ * cpu::kPanel / 4, [&](int64_t first, int64_t count) {
    cpu::multiply_panels(from, rows.size(0), inputs_, panels, outputs_, first, count, to);
  });
  return y;
}

Tensor panel_linear(const Tensor& x, const Tensor& weight) { return PanelLinear::apply(x, weight); }

}  // namespace keel
