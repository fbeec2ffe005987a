#pragma once

#include "keel/core/error.h"
#include "keel/core/tensor/tensor.h"
#include "keel/kernels/float_type.h"

namespace keel {

/// The current stream (a cudaStream_t) of the tensor's device.
void* current_stream(const Tensor& tensor);

/// Calls launch(stream), which returns a CUDA error code or 0. `launch` must be a generic lambda, so that a build
/// without CUDA kernels does not reference them.
template <class Launch>
void launch_on_cuda([[maybe_unused]] const Tensor& tensor, [[maybe_unused]] const char* kernel,
                    [[maybe_unused]] const Launch& launch) {
#ifdef KEEL_HAS_CUDA
  if (const int error = launch(current_stream(tensor)); error != 0)
    fail(ExitCode::kInternal, kernel, " kernel: CUDA error ", error);
#else
  fail(ExitCode::kBadConfiguration, "this build has no CUDA kernels. Install the CUDA toolkit (nvcc) and build again.");
#endif
}

/// The kernels' enum for a tensor's dtype.
inline FloatType float_type(const Tensor& x) {
  if (x.scalar_type() == at::kFloat) return FloatType::kFloat32;
  if (x.scalar_type() == at::kBFloat16) return FloatType::kBfloat16;
  if (x.scalar_type() == at::kHalf) return FloatType::kFloat16;
  fail(ExitCode::kInternal, "no kernel supports the dtype ", c10::toString(x.scalar_type()));
}

/// x as rows [N, width] with unit stride within a row; copies only if necessary.
inline Tensor contiguous_rows(const Tensor& x) {
  return x.dim() == 2 && x.stride(1) == 1 ? x : x.contiguous().view({-1, x.size(-1)});
}

/// x [N, heads, D] with contiguous rows, whose stride may be larger; copies only if necessary.
inline Tensor contiguous_heads(const Tensor& x) {
  return x.stride(2) == 1 && x.stride(1) == x.size(2) ? x : x.contiguous();
}

}  // namespace keel
