#include "keel/rollout/rounding.h"

#include <ATen/ATen.h>

#include <limits>

#include "keel/ops/cuda_layers.h"

namespace keel {
namespace {

constexpr float kMaxE2m1 = 6;
constexpr float kMinScale = std::numeric_limits<float>::min();  // for rows of zeros

bool is_float8(at::ScalarType type) { return type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2; }

float max_of_float8(at::ScalarType type) { return max_of(float8_format(type)); }

bool has_kernel(const Tensor& x, at::ScalarType type) {
  const auto source = x.scalar_type();
  return x.is_cuda() && is_float8(type) && x.dim() > 0 &&
         (source == at::kFloat || source == at::kBFloat16 || source == at::kHalf);
}

/// x / divisor, with the divisor as a tensor: for a scalar, a GPU would multiply by the inverse and differ from a CPU.
Tensor divide(const Tensor& x, float divisor) { return x / at::full_like(x, divisor); }

/// The scale [..., 1] of each row [..., n], which maps the row's largest magnitude to `largest`.
Tensor row_scales(const Tensor& x, float largest) {
  return divide(x.abs().amax(-1, /*keepdim=*/true), largest).clamp_min_(kMinScale);
}

Tensor round_to_e2m1(const Tensor& x) {
  const Tensor clamped = x.clamp(-kMaxE2m1, kMaxE2m1), magnitude = clamped.abs();
  const Tensor step = at::where(magnitude < 2, 0.5, at::where(magnitude < 4, 1.0, 2.0));  // one bit of mantissa
  return at::round(clamped / step) * step;
}

}  // namespace

Tensor round_to_type(const Tensor& x, at::ScalarType type) {
  if (has_kernel(x, type)) return gpu::round_to_float8(x, type, /*scaled=*/false);
  const Tensor values = x.detach();
  const float largest = max_of_float8(type);
  return (is_float8(type) ? values.clamp(-largest, largest) : values).to(type).to(x.scalar_type());
}

Tensor round_rows_to_float8(const Tensor& x, at::ScalarType type) {
  if (has_kernel(x, type)) return gpu::round_to_float8(x, type, /*scaled=*/true);
  const Tensor values = x.detach().to(at::kFloat), scales = row_scales(values, max_of_float8(type));
  return round_to_type(values / scales, type).mul_(scales).to(x.scalar_type());
}

Tensor round_to_integers(const Tensor& x, int bits) {
  const Tensor values = x.detach().to(at::kFloat), scales = row_scales(values, (1 << (bits - 1)) - 1);
  return at::round(values / scales).mul_(scales).to(x.scalar_type());
}

Tensor round_to_nvfp4(const Tensor& x) {
  constexpr int64_t kBlock = 16;
  const int64_t rows = x.size(0), columns = x.size(1), padding = (kBlock - columns % kBlock) % kBlock;
  const Tensor blocks = at::constant_pad_nd(x.detach().to(at::kFloat), {0, padding}).view({rows, -1, kBlock});
  const Tensor largest = blocks.abs().amax(-1, /*keepdim=*/true);
  // The block with the largest magnitude gets the largest scale of e4m3.
  const Tensor tensor_scale = divide(largest.max(), max_of(Float8::kE4m3) * kMaxE2m1).clamp_min_(kMinScale);
  const Tensor scales = round_to_type(divide(largest, kMaxE2m1) / tensor_scale, at::kFloat8_e4m3fn).mul_(tensor_scale);
  // The scale of a block much smaller than others may round to 0; the block then becomes 0.
  return round_to_e2m1(blocks / scales.clamp_min(kMinScale))
      .mul_(scales)
      .view({rows, columns + padding})
      .narrow(1, 0, columns)
      .contiguous()
      .to(x.scalar_type());
}

}  // namespace keel
