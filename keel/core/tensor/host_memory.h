#pragma once

#include <ATen/ATen.h>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The same numbers in host memory that nobody else holds, without gradients.
inline Tensor copy_to_host_memory(const Tensor& tensor) {
  return tensor.detach().to(at::Device(at::kCPU), tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace keel
