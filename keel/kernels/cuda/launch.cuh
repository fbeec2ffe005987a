#pragma once

#include <type_traits>

namespace keel::cuda {

/// Waits until the writes of the previous kernel are visible. A kernel that launch() starts must call this first.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel start early and run up to its wait_for_previous_kernel().
__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Launches a kernel that may start while the previous one ends (programmatic dependent launch), which saves a
/// microsecond between small kernels. `cluster`: thread blocks per cluster, along x.
template <class... Parameters>
void launch_in_clusters(void (*kernel)(Parameters...), dim3 grid, int cluster, int threads, size_t shared_bytes,
                        void* stream, std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned int>(cluster);
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned int>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, void* stream,
            std::type_identity_t<Parameters>... arguments) {
  launch_in_clusters(kernel, grid, 1, threads, shared_bytes, stream, arguments...);
}

/// Raises a kernel's limit of dynamic shared memory if necessary.
template <class Kernel>
void allow_shared_bytes(const Kernel& kernel, size_t bytes) {
  constexpr size_t kDefaultLimit = 47 << 10;  // leaves 1 KiB for static shared memory
  if (bytes > kDefaultLimit)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// Number of multiprocessors of the current device.
inline int multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

/// Returns whether the current device has the sm_90a instructions of Hopper, which no later device has.
inline bool is_hopper() {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == 9 && minor == 0;
}

}  // namespace keel::cuda
