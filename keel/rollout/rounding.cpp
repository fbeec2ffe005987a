#include "keel/rollout/rounding.h"

#include <ATen/ATen.h>

#include <limits>

#include "keel/ops/cuda_layers.h"

namespace keel {
namespace {

constexpr float kLargestE2m1 = 6;
constexpr float kLeast = std::numeric_limits<float>::min();  // a scale of zeros must not be 0

bool is_float8(at::ScalarType type) { return type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2; }

float largest_of_float8(at::ScalarType type) { return largest_of(float8_format(type)); }

bool has_kernel(const Tensor& x, at::ScalarType type) {
  const auto of = x.scalar_type();
  return x.is_cuda() && is_float8(type) && x.dim() > 0 && (of == at::kFloat || of == at::kBFloat16 || of == at::kHalf);
}

/// By a tensor: a GPU would multiply with the inverse of a plain number, and its scales would differ from a CPU's.
Tensor divided(const Tensor& x, float by) { return x / at::full_like(x, by); }

/// [..., 1]: what the largest number of each row [..., n] is to `largest`.
Tensor scales_of_rows(const Tensor& x, float largest) {
  return divided(x.abs().amax(-1, /*keepdim=*/true), largest).clamp_min_(kLeast);
}

Tensor rounded_to_e2m1(const Tensor& x) {
  const Tensor held = x.clamp(-kLargestE2m1, kLargestE2m1), size = held.abs();
  const Tensor step = at::where(size < 2, 0.5, at::where(size < 4, 1.0, 2.0));  // two numbers in each power of two
  return at::round(held / step) * step;
}

}  // namespace

Tensor round_to_type(const Tensor& x, at::ScalarType type) {
  if (has_kernel(x, type)) return gpu::round_to_float8(x, type, /*scaled=*/false);
  const Tensor plain = x.detach();
  const float largest = largest_of_float8(type);
  return (is_float8(type) ? plain.clamp(-largest, largest) : plain).to(type).to(x.scalar_type());
}

Tensor round_rows_to_float8(const Tensor& x, at::ScalarType type) {
  if (has_kernel(x, type)) return gpu::round_to_float8(x, type, /*scaled=*/true);
  const Tensor plain = x.detach().to(at::kFloat), scales = scales_of_rows(plain, largest_of_float8(type));
  return round_to_type(plain / scales, type).mul_(scales).to(x.scalar_type());
}

Tensor round_to_integers(const Tensor& x, int bits) {
  const Tensor plain = x.detach().to(at::kFloat), scales = scales_of_rows(plain, (1 << (bits - 1)) - 1);
  return at::round(plain / scales).mul_(scales).to(x.scalar_type());
}

Tensor round_to_nvfp4(const Tensor& x) {
  constexpr int64_t kBlock = 16;
  const int64_t rows = x.size(0), columns = x.size(1), missing = (kBlock - columns % kBlock) % kBlock;
  const Tensor blocks = at::constant_pad_nd(x.detach().to(at::kFloat), {0, missing}).view({rows, -1, kBlock});
  const Tensor largest = blocks.abs().amax(-1, /*keepdim=*/true);
  // The block with the largest number of all has the largest scale that e4m3 can hold.
  const Tensor of_all = divided(largest.max(), largest_of(Float8::kE4m3) * kLargestE2m1).clamp_min_(kLeast);
  const Tensor scales = round_to_type(divided(largest, kLargestE2m1) / of_all, at::kFloat8_e4m3fn).mul_(of_all);
  // Beside much larger blocks a scale may round to 0, and its block with it.
  return rounded_to_e2m1(blocks / scales.clamp_min(kLeast))
      .mul_(scales)
      .view({rows, columns + missing})
      .narrow(1, 0, columns)
      .contiguous()
      .to(x.scalar_type());
}

}  // namespace keel
