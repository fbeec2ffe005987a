#pragma once

#include <type_traits>

namespace keel::cuda {

/// The first call of a kernel that launch() starts: waits until the writes of the work queued before it are visible.
__device__ inline void wait_for_what_was_queued() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the kernel that was queued after this one begin, up to where it waits, as soon as there is room for it.
__device__ inline void start_the_next() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Starts a kernel that may be set up while the one before it still ends, which saves a microsecond between two small
/// ones; its blocks in clusters of so many along x.
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

/// Lets a kernel have more shared memory than is usual.
template <class Kernel>
void allow_shared_bytes(const Kernel& kernel, size_t bytes) {
  constexpr size_t kUsual = 47 << 10;  // and what a kernel has beside it
  if (bytes > kUsual)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// Of the present device.
inline int multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

/// Whether the present device has Hopper's own instructions, which no later device has.
inline bool is_hopper() {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == 9 && minor == 0;
}

}  // namespace keel::cuda
