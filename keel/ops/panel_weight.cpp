#include "keel/ops/panel_weight.h"

#include <ATen/ATen.h>

#include "keel/kernels/cpu/panel_product.h"
#include "keel/ops/for_rows.h"
#include "keel/ops/huge_pages.h"

namespace keel {

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

}  // namespace keel
