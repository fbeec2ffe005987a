#pragma once

#include "keel/core/error.h"
#include "keel/core/tensor/tensor.h"

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

}  // namespace keel
