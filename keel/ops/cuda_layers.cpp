#include "keel/ops/cuda_layers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "keel/kernels/cuda/float8.h"
#include "keel/kernels/cuda/gemm.h"
#include "keel/kernels/cuda/layers.h"
#include "keel/ops/launch.h"

namespace keel::gpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const void* data_or_null(const Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }

/// Norm of x, or of sum = x + added if `added` is defined.
NormedSum compute_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  const Tensor rows = x.contiguous(), added_rows = added.defined() ? added.contiguous() : added;
  NormedSum result{added.defined() ? at::empty_like(rows) : Tensor(), at::empty_like(rows)};
  launch_on_cuda(x, "norm", [&](auto stream) {
    return cuda::rms_norm_rows(rows.const_data_ptr(), data_or_null(added_rows), weight.const_data_ptr(), float_type(x),
                               rows.size(0), rows.size(1), static_cast<float>(eps),
                               added.defined() ? result.sum.mutable_data_ptr() : nullptr,
                               result.normed.mutable_data_ptr(), stream);
  });
  return result;
}

struct NormGradients {
  Tensor x, weight;
};

/// `dsum`: the gradient of x + added from the residual stream, or undefined. The weight's gradient is optional.
NormGradients norm_gradients(const Tensor& x, const Tensor& weight, bool needs_weight_grad, double eps,
                             const Tensor& dnormed, const Tensor& dsum) {
  const int64_t rows = x.size(0), width = x.size(1);
  Tensor dx = at::empty_like(x), dweight;
  launch_on_cuda(x, "norm gradients", [&](auto stream) {
    const Tensor dy = dnormed.contiguous(), residual = dsum.defined() ? dsum.contiguous() : dsum;
    Tensor parts;
    if (needs_weight_grad) parts = at::empty({cuda::norm_gradient_parts(rows), width}, x.options().dtype(at::kFloat));
    const int error = cuda::rms_norm_gradients(x.const_data_ptr(), weight.const_data_ptr(), dy.const_data_ptr(),
                                               data_or_null(residual), float_type(x), rows, width,
                                               static_cast<float>(eps), dx.mutable_data_ptr(),
                                               needs_weight_grad ? parts.mutable_data_ptr<float>() : nullptr, stream);
    if (needs_weight_grad) dweight = parts.sum(0).to(weight.scalar_type());
    return error;
  });
  return {dx, dweight};
}

struct Norm : torch::autograd::Function<Norm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double eps) {
    const Tensor rows = x.contiguous();
    context->save_for_backward({rows, weight});
    context->saved_data["eps"] = eps;
    return compute_norm(rows, {}, weight, eps).normed;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const NormGradients result = norm_gradients(saved[0], saved[1], context->needs_input_grad(1),
                                                context->saved_data["eps"].toDouble(), gradients[0], {});
    return {result.x, result.weight, Tensor()};
  }
};

struct AddAndNorm : torch::autograd::Function<AddAndNorm> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& added, const Tensor& weight,
                               double eps) {
    const NormedSum result = compute_norm(x, added, weight, eps);
    context->set_materialize_grads(false);
    context->save_for_backward({result.sum, weight});
    context->saved_data["eps"] = eps;
    return {result.sum, result.normed};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &dsum = gradients[0], &dnormed = gradients[1];
    if (!dnormed.defined()) return {dsum, dsum, Tensor(), Tensor()};
    const NormGradients result = norm_gradients(saved[0], saved[1], context->needs_input_grad(2),
                                                context->saved_data["eps"].toDouble(), dnormed, dsum);
    return {result.x, result.x, result.weight, Tensor()};
  }
};

Tensor compute_swiglu(const Tensor& gate, const Tensor& up) {
  const Tensor g = contiguous_rows(gate), u = contiguous_rows(up);
  Tensor y = at::empty(gate.sizes(), gate.options());
  launch_on_cuda(g, "SwiGLU", [&](auto stream) {
    return cuda::swiglu_rows(g.const_data_ptr(), g.stride(0), u.const_data_ptr(), u.stride(0), float_type(g), g.size(0),
                             g.size(1), y.mutable_data_ptr(), stream);
  });
  return y;
}

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up) {
    context->save_for_backward({gate, up});
    return compute_swiglu(gate, up);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor g = contiguous_rows(saved[0]), u = contiguous_rows(saved[1]), dy = gradients[0].contiguous();
    Tensor dgate = at::empty(saved[0].sizes(), g.options()), dup = at::empty_like(dgate);
    launch_on_cuda(g, "SwiGLU gradients", [&](auto stream) {
      return cuda::swiglu_gradients(g.const_data_ptr(), g.stride(0), u.const_data_ptr(), u.stride(0),
                                    dy.const_data_ptr(), float_type(g), g.size(0), g.size(1), dgate.mutable_data_ptr(),
                                    dup.mutable_data_ptr(), stream);
    });
    return {dgate, dup};
  }
};

}  // namespace

Tensor norm(const Tensor& x, const Tensor& weight, double eps) { return Norm::apply(x, weight, eps); }

NormedSum add_and_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  const variable_list outputs = AddAndNorm::apply(x, added, weight, eps);
  return {outputs[0], outputs[1]};
}

Tensor swiglu(const Tensor& gate, const Tensor& up) { return SwiGlu::apply(gate, up); }

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction) {
  const Tensor rows = contiguous_heads(x);
  Tensor y = at::empty(rows.sizes(), rows.options());
  launch_on_cuda(x, "rotary embedding", [&](auto stream) {
    return cuda::rotate_heads(rows.const_data_ptr(), rows.stride(0), cos.const_data_ptr<float>(),
                              sin.const_data_ptr<float>(), direction, float_type(x), rows.size(0), rows.size(1),
                              rows.size(2), y.mutable_data_ptr(), stream);
  });
  return y;
}

RotaryAngles rotary_angles(const Tensor& positions, const Tensor& frequencies, double factor) {
  const int64_t rows = positions.size(0), half = frequencies.size(0);
  Tensor cos = at::empty({rows, half}, frequencies.options()), sin = at::empty_like(cos);
  launch_on_cuda(positions, "rotary angles", [&](auto stream) {
    return cuda::rotary_angles(positions.const_data_ptr<int64_t>(), frequencies.const_data_ptr<float>(), rows, half,
                               static_cast<float>(factor), cos.mutable_data_ptr<float>(), sin.mutable_data_ptr<float>(),
                               stream);
  });
  return {cos, sin};
}

int64_t padded_rank(int64_t rank, const at::TensorOptions& options) {
  const bool is_fused = rank <= cuda::kMaxFusedRank && options.device().is_cuda() &&
                        c10::typeMetaToScalarType(options.dtype()) != at::kFloat;
  const int64_t multiple = is_fused ? 8 : 64;
  return (rank + multiple - 1) / multiple * multiple;
}

Tensor skinny_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const AdapterMatrices& adapter,
                     bool swiglu) {
  Tensor y, u;
  if (at::GradMode::is_enabled() || x.dim() != 2 || x.stride(1) != 1 || !weight.is_contiguous()) return y;
  cuda::GemmArguments gemm{x.const_data_ptr(),      x.size(0),      x.stride(0),   x.size(1),
                           weight.const_data_ptr(), weight.size(0), float_type(x), data_or_null(bias)};
  const bool adapted = adapter.a.defined();
  if (adapted) {
    if (!adapter.a.is_contiguous() || !adapter.b.is_contiguous()) return y;
    gemm.added = {adapter.a.const_data_ptr(), nullptr, adapter.b.const_data_ptr(), adapter.a.size(0)};
  }
  launch_on_cuda(x, "skinny GEMM", [&](auto stream) {
    if (adapted && !cuda::supports_skinny_gemm(gemm)) {  // u = x A^T in a launch of its own
      gemm.added.a = nullptr;
      if (cuda::supports_skinny_gemm(gemm)) u = skinny_linear(x, adapter.a, {}, {}, /*swiglu=*/false);
      if (!u.defined()) return 0;
      gemm.added.u = u.const_data_ptr();
    }
    if (!cuda::supports_skinny_gemm(gemm)) return 0;
    y = at::empty({x.size(0), swiglu ? weight.size(0) / 2 : weight.size(0)}, x.options());
    return (swiglu ? cuda::skinny_gemm_swiglu : cuda::skinny_gemm)(gemm, y.mutable_data_ptr(), stream);
  });
  return y;
}

Tensor round_to_float8(const Tensor& x, at::ScalarType type, bool scaled) {
  const Tensor rows = x.detach().contiguous();
  Tensor y = at::empty_like(rows);
  if (rows.numel() == 0) return y;
  const int64_t width = rows.size(-1);
  const auto format = float8_format(type);
  launch_on_cuda(x, "float8 rounding", [&](auto stream) {
    return cuda::round_to_float8(rows.const_data_ptr(), float_type(x), format, scaled, rows.numel() / width, width,
                                 y.mutable_data_ptr(), stream);
  });
  return y;
}

}  // namespace keel::gpu
