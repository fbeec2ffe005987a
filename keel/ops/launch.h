#pragma once

#include "keel/core/error.h"
#include "keel/core/tensor/tensor.h"
#include "keel/kernels/float_type.h"

namespace keel {

/// The stream (a cudaStream_t) on which the work of a tensor's device is queued.
void* current_stream(const Tensor& tensor);

/// Calls launch(stream) for the device of `tensor`; it returns a CUDA error code, 0 for none. A generic lambda, so that
/// a build without the CUDA kernels never names them.
template <class Launch>
void launch_on_cuda([[maybe_unused]] const Tensor& tensor, [[maybe_unused]] const char* kernel,
                    [[maybe_unused]] const Launch& launch) {
#ifdef KEEL_HAS_CUDA
  if (const int error = launch(current_stream(tensor)); error != 0)
    fail(ExitCode::kInternal, kernel, " kernel: CUDA error ", error);
#else
  fail(ExitCode::kBadConfiguration, "this build has no CUDA kernels; install the CUDA toolkit (nvcc) and build again");
#endif
}

/// The kernels' name for a tensor's numbers.
inline FloatType float_type(const Tensor& x) {
  if (x.scalar_type() == at::kFloat) return FloatType::kFloat32;
  if (x.scalar_type() == at::kBFloat16) return FloatType::kBfloat16;
  if (x.scalar_type() == at::kHalf) return FloatType::kFloat16;
  fail(ExitCode::kInternal, "no kernel computes with numbers of type ", c10::toString(x.scalar_type()));
}

/// Rows that may be parts of longer ones, [N, width].
inline Tensor contiguous_rows(const Tensor& x) {
  return x.dim() == 2 && x.stride(1) == 1 ? x : x.contiguous().view({-1, x.size(-1)});
}

/// Rows [N, heads, D] whose heads follow each other, copied where they do not; the rows may be parts of longer ones.
inline Tensor contiguous_heads(const Tensor& x) {
  return x.stride(2) == 1 && x.stride(1) == x.size(2) ? x : x.contiguous();
}

}  // namespace keel
