#pragma once

#include <type_traits>

namespace keel::cuda {

/// The first thing that a kernel does which launch() starts: waits until what was queued before it is done and seen.
__device__ inline void wait_for_what_was_queued() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Starts a kernel that may be set up while the one before it still ends, which saves a microsecond between two small
/// ones.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, void* stream,
            std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned int>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace keel::cuda
