#include "keel/ops/layer_ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "keel/core/tensor/precision.h"
#include "keel/kernels/cpu/elementwise.h"
#include "keel/ops/parallel_rows.h"

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kWeightBlocks = 16;

bool has_cpu_kernel(const Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

const float* in(const Tensor& x) { return x.const_data_ptr<float>(); }
float* out(Tensor& x) { return x.mutable_data_ptr<float>(); }

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double eps) {
    const Tensor rows = x.contiguous();
    Tensor y = at::empty_like(rows), scale = at::empty({rows.size(0)}, rows.options());
    const int64_t width = rows.size(1);
    parallel_for_rows(rows.size(0), width, [&](int64_t begin, int64_t count) {
      cpu::rms_norm_forward(in(rows) + begin * width, in(weight), count, width, static_cast<float>(eps),
                            out(y) + begin * width, out(scale) + begin);
    });
    context->save_for_backward({rows, weight, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &scale = saved[2], dy = gradients[0].contiguous();
    const int64_t rows = x.size(0), width = x.size(1);
    const bool needs_weight_grad = context->needs_input_grad(1);
    Tensor dx = at::empty_like(x), partial;
    if (needs_weight_grad) partial = at::zeros({kWeightBlocks, width}, x.options());
    // The number of blocks is fixed and their sums are added in order, so the bits do not depend on the thread count.
    const int64_t block_rows = (rows + kWeightBlocks - 1) / kWeightBlocks;
    at::parallel_for(0, kWeightBlocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        const int64_t begin = std::min(b * block_rows, rows), count = std::min(block_rows, rows - begin);
        cpu::rms_norm_backward(in(x) + begin * width, in(weight), in(scale) + begin, in(dy) + begin * width, count,
                               width, out(dx) + begin * width, needs_weight_grad ? out(partial) + b * width : nullptr);
      }
    });
    return {dx, needs_weight_grad ? partial.sum(0) : Tensor(), Tensor()};
  }
};

struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up, Activation activation) {
    const Tensor g = contiguous_rows(gate), u = contiguous_rows(up);
    const int64_t width = g.size(1);
    Tensor y = at::empty(gate.sizes(), gate.options());
    parallel_for_rows(g.size(0), width, [&](int64_t begin, int64_t count) {
      for (int64_t row = begin; row < begin + count; ++row)
        cpu::gated_forward(activation, in(g) + row * g.stride(0), in(u) + row * u.stride(0), width,
                           out(y) + row * width);
    });
    context->save_for_backward({gate, up});
    context->saved_data["activation"] = static_cast<int64_t>(activation);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor gate = saved[0].contiguous(), up = saved[1].contiguous(), dy = gradients[0].contiguous();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
    parallel_for_rows(gate.numel(), 1, [&](int64_t begin, int64_t count) {
      cpu::gated_backward(activation, in(gate) + begin, in(up) + begin, in(dy) + begin, count, out(dgate) + begin,
                          out(dup) + begin);
    });
    return {dgate, dup, Tensor()};
  }
};

bool has_gpu_kernel(const Tensor& x) {
  return x.is_cuda() && (x.scalar_type() == at::kFloat || is_narrow(x.scalar_type()));
}

Tensor apply_rotation(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction) {
  if (x.is_cuda()) return gpu::rotate(x, cos, sin, direction);
  const int64_t heads = x.size(1), width = x.size(2);
  const Tensor rows = contiguous_heads(x);
  Tensor y = at::empty(rows.sizes(), rows.options());
  parallel_for_rows(rows.size(0), heads * width, [&](int64_t begin, int64_t count) {
    cpu::rotate_heads(in(rows) + begin * rows.stride(0), rows.stride(0), in(cos) + begin * width / 2,
                      in(sin) + begin * width / 2, count, heads, width, direction, out(y) + begin * heads * width);
  });
  return y;
}

struct Rotate : torch::autograd::Function<Rotate> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    context->save_for_backward({cos, sin});
    return apply_rotation(x, cos, sin, 1.0f);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {apply_rotation(gradients[0], saved[0], saved[1], -1.0f), Tensor(), Tensor()};
  }
};

bool has_gpu_norm(const Tensor& x, const Tensor& weight) {
  return has_gpu_kernel(x) && weight.scalar_type() == x.scalar_type();
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (has_cpu_kernel(x)) return RmsNorm::apply(x, weight, eps);
  if (has_gpu_norm(x, weight)) return gpu::norm(x, weight, eps);
  // Gemma's weights are float32. The float32 kernel does not round intermediate results, and the bits of a row do not
  // depend on other rows.
  if (has_gpu_kernel(x) && weight.scalar_type() == at::kFloat)
    return gpu::norm(x.to(at::kFloat), weight, eps).to(x.scalar_type());
  if (!is_narrow(x.scalar_type())) return at::rms_norm(x, x.size(-1), weight, eps);
  // Rounds like transformers: before the multiplication with a narrow weight, and after it.
  const Tensor x32 = x.to(at::kFloat), normed = x32 * (x32.square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
  return (normed.to(weight.scalar_type()) * weight).to(x.scalar_type());
}

NormedSum add_and_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  if (has_gpu_norm(x, weight)) return gpu::add_and_norm(x, added, weight, eps);
  const Tensor sum = x + added;
  return {sum, rms_norm(sum, weight, eps)};
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const AdapterMatrices& adapter) {
  if (has_gpu_kernel(x))
    if (const Tensor y = gpu::skinny_linear(x, weight, bias, adapter, /*swiglu=*/false); y.defined()) return y;
  if (!adapter.a.defined()) return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  const Tensor u = linear(x, adapter.a, Tensor());
  if (!x.is_cuda() || !is_narrow(x.scalar_type())) return linear(x, weight, bias).addmm_(u, adapter.b.t());
  // Rounds the sum once, as the kernel does: cuBLAS may round x W^T before it adds the other product.
  Tensor sum = at::mm(x, weight.t(), at::kFloat);
  at::addmm_out(sum, sum, u, adapter.b.t(), at::kFloat);
  return (bias.defined() ? sum.add_(bias) : sum).to(x.scalar_type());
}

Tensor gated_linear(Activation activation, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const AdapterMatrices& adapter) {
  if (activation == Activation::kSilu && has_gpu_kernel(x))
    if (const Tensor y = gpu::skinny_linear(x, weight, bias, adapter, /*swiglu=*/true); y.defined()) return y;
  const std::vector<Tensor> both = linear(x, weight, bias, adapter).chunk(2, 1);
  return gated(activation, both[0], both[1]);
}

Tensor gated(Activation activation, const Tensor& gate, const Tensor& up) {
  if (has_cpu_kernel(gate)) return Gated::apply(gate, up, activation);
  switch (activation) {
    case Activation::kGeluTanh:
      return at::gelu(gate, "tanh") * up;
    case Activation::kGelu:
      return at::gelu(gate) * up;
    case Activation::kSilu:
      break;
  }
  return has_gpu_kernel(gate) ? gpu::swiglu(gate, up) : at::silu(gate) * up;
}

RotaryAngles rotary_angles(const Tensor& positions, const Tensor& frequencies, double factor) {
  if (has_cpu_kernel(frequencies)) {
    const int64_t rows = positions.size(0), half = frequencies.size(0);
    Tensor cos = at::empty({rows, half}, frequencies.options()), sin = at::empty_like(cos);
    const int64_t* const position_data = positions.const_data_ptr<int64_t>();
    parallel_for_rows(rows, half * 8, [&](int64_t begin, int64_t count) {
      cpu::rotary_angles(position_data + begin, in(frequencies), count, half, static_cast<float>(factor),
                         out(cos) + begin * half, out(sin) + begin * half);
    });
    return {cos, sin};
  }
  if (has_gpu_kernel(frequencies)) return gpu::rotary_angles(positions, frequencies, factor);
  const Tensor angle = at::outer(positions.to(at::kFloat), frequencies);
  return {angle.cos() * factor, angle.sin() * factor};
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  if (has_cpu_kernel(x) || has_gpu_kernel(x)) return Rotate::apply(x, cos, sin);
  const int64_t half = x.size(-1) / 2;
  const Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1), first = x.narrow(-1, 0, half),
               second = x.narrow(-1, half, half);
  return at::cat({first * c - second * s, second * c + first * s}, -1).to(x.scalar_type());
}

Heads Heads::rotated() const {
  if (!angles.cos.defined()) return *this;
  return {rotate(query, angles.cos, angles.sin), rotate(key, angles.cos, angles.sin), value};
}

}  // namespace keel
