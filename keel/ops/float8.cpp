#include "keel/ops/float8.h"

#include <ATen/ATen.h>

#include "keel/kernels/cuda/float8.h"
#include "keel/ops/cuda_launch.h"
#include "keel/ops/float_type.h"

namespace keel::gpu {

Tensor rounded_to_float8(const Tensor& x, at::ScalarType type, bool scaled) {
  const Tensor rows = x.detach().contiguous();
  Tensor y = at::empty_like(rows);
  if (rows.numel() == 0) return y;
  const int64_t width = rows.size(-1);
  const auto format = float8_format(type);
  launch_on_cuda(x, "rounding", [&](auto stream) {
    return cuda::round_to_float8(rows.const_data_ptr(), float_type(x), format, scaled, rows.numel() / width, width,
                                 y.mutable_data_ptr(), stream);
  });
  return y;
}

}  // namespace keel::gpu
