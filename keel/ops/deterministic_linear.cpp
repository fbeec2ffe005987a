#include "keel/ops/deterministic_linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "keel/core/error.h"
#include "keel/core/tensor/precision.h"
#include "keel/kernels/cuda/gemm.h"
#include "keel/ops/launch.h"
#include "keel/ops/packed_weight.h"

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor deterministic_gemm(const Tensor& x, const Tensor& weight, bool float32_result) {
  if (x.scalar_type() != weight.scalar_type() || x.size(-1) != weight.size(1))
    fail(ExitCode::kInternal, "a deterministic GEMM of ", c10::toString(x.scalar_type()), " rows of ", x.size(-1),
         " and a ", c10::toString(weight.scalar_type()), " weight for ", weight.size(1));
  if (x.is_cpu()) return PackedWeight(weight)(x);
  const Tensor rows = contiguous_rows(x), w = weight.contiguous();
  Tensor y = at::empty({rows.size(0), w.size(0)}, float32_result ? rows.options().dtype(at::kFloat) : rows.options());
  launch_on_cuda(rows, "deterministic GEMM", [&](auto stream) {
    return cuda::deterministic_gemm({rows.const_data_ptr(), rows.size(0), rows.stride(0), rows.size(1),
                                     w.const_data_ptr(), w.size(0), float_type(rows)},
                                    float32_result, y.mutable_data_ptr(), stream);
  });
  return y;
}

struct DeterministicLinear : torch::autograd::Function<DeterministicLinear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight) {
    context->save_for_backward({weight.requires_grad() ? x : Tensor(), weight});
    return deterministic_gemm(x, weight, /*float32_result=*/false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &dy = gradients[0];
    return {context->needs_input_grad(0) ? dy.mm(weight) : Tensor(),
            context->needs_input_grad(1) ? dy.t().mm(x) : Tensor()};
  }
};

}  // namespace

Tensor deterministic_linear(const Tensor& x, const Tensor& weight) { return DeterministicLinear::apply(x, weight); }

Tensor deterministic_linear_to_float32(const Tensor& x, const Tensor& weight) {
  return deterministic_gemm(x, weight, /*float32_result=*/true);
}

bool has_deterministic_gemm(at::Device device, at::ScalarType type) {
  return device.is_cpu() ? type == at::kFloat : is_narrow(type);
}

}  // namespace keel
