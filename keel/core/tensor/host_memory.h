#pragma once

#include <ATen/ATen.h>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Copies a tensor to new host memory, without gradients.
inline Tensor copy_to_host_memory(const Tensor& tensor) {
  return tensor.detach().to(at::Device(at::kCPU), tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace keel
