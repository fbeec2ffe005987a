#pragma once

#include <cstdint>

#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/cuda/tensor_cores.cuh"

// Warpgroup MMA of Hopper (four warps): [64 x 16] rows times [16 x N] weights, both in shared memory tiles.

namespace keel::cuda {

/// Matrix descriptor of a tile that starts at a multiple of 1024 bytes, with 128-byte swizzling.
__device__ inline uint64_t tile_descriptor(const void* begin) {
  constexpr uint64_t kEightRows = 1024 >> 4, kSwizzled128 = 1;
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(begin));
  return (address & 0x3FFFF) >> 4 | uint64_t{1} << 16 | kEightRows << 32 | kSwizzled128 << 62;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KEEL_EIGHT(d, i)                                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define KEEL_PRODUCT(N, TYPE, REGISTERS, A, B, ...)                                                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGISTERS "}, " A ", " B \
               ", 1, 1, 1, 0, 0;"                                                                            \
               : __VA_ARGS__                                                                                 \
               : "l"(rows), "l"(weight))
#define KEEL_R8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define KEEL_R16 KEEL_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define KEEL_R24 KEEL_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define KEEL_R32 KEEL_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define KEEL_R40 KEEL_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define KEEL_R48 KEEL_R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define KEEL_R64 KEEL_R48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KEEL_R80 KEEL_R64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define KEEL_D8(d) KEEL_EIGHT(d, 0)
#define KEEL_D16(d) KEEL_D8(d), KEEL_EIGHT(d, 8)
#define KEEL_D24(d) KEEL_D16(d), KEEL_EIGHT(d, 16)
#define KEEL_D32(d) KEEL_D24(d), KEEL_EIGHT(d, 24)
#define KEEL_D40(d) KEEL_D32(d), KEEL_EIGHT(d, 32)
#define KEEL_D48(d) KEEL_D40(d), KEEL_EIGHT(d, 40)
#define KEEL_D64(d) KEEL_D48(d), KEEL_EIGHT(d, 48), KEEL_EIGHT(d, 56)
#define KEEL_D80(d) KEEL_D64(d), KEEL_EIGHT(d, 64), KEEL_EIGHT(d, 72)
#define KEEL_PRODUCTS(T, TYPE)                                                                    \
  __device__ inline void multiply_add(float (&d)[8], uint64_t rows, uint64_t weight, const T*) {  \
    KEEL_PRODUCT(16, TYPE, KEEL_R8, "%8", "%9", KEEL_D8(d));                                      \
  }                                                                                               \
  __device__ inline void multiply_add(float (&d)[16], uint64_t rows, uint64_t weight, const T*) { \
    KEEL_PRODUCT(32, TYPE, KEEL_R16, "%16", "%17", KEEL_D16(d));                                  \
  }                                                                                               \
  __device__ inline void multiply_add(float (&d)[24], uint64_t rows, uint64_t weight, const T*) { \
    KEEL_PRODUCT(48, TYPE, KEEL_R24, "%24", "%25", KEEL_D24(d));                                  \
  }                                                                                               \
  __device__ inline void multiply_add(float (&d)[32], uint64_t rows, uint64_t weight, const T*) { \
    KEEL_PRODUCT(64, TYPE, KEEL_R32, "%32", "%33", KEEL_D32(d));                                  \
  }                                                                                               \
  __device__ inline void multiply_add(float (&d)[40], uint64_t rows, uint64_t weight, const T*) { \
    KEEL_PRODUCT(80, TYPE, KEEL_R40, "%40", "%41", KEEL_D40(d));                                  \
  }                                                                                               \
  __device__ inline void multiply_add(float (&d)[48], uint64_t rows, uint64_t weight, const T*) { \
    KEEL_PRODUCT(96, TYPE, KEEL_R48, "%48", "%49", KEEL_D48(d));                                  \
  }                                                                                               \
  __device__ inline void multiply_add(float (&d)[64], uint64_t rows, uint64_t weight, const T*) { \
    KEEL_PRODUCT(128, TYPE, KEEL_R64, "%64", "%65", KEEL_D64(d));                                 \
  }                                                                                               \
  __device__ inline void multiply_add(float (&d)[80], uint64_t rows, uint64_t weight, const T*) { \
    KEEL_PRODUCT(160, TYPE, KEEL_R80, "%80", "%81", KEEL_D80(d));                                 \
  }
KEEL_PRODUCTS(__nv_bfloat16, "bf16")
KEEL_PRODUCTS(__half, "f16")

__device__ inline void fence_mma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_mma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wait_for_mma() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
/// Keeps the reads of accumulators after the preceding wait_for_mma().
template <int N>
__device__ void keep_after_wait(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
/// Makes this thread's writes to shared memory visible to the tensor cores and to asynchronous copies.
__device__ inline void fence_shared_memory() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif

}  // namespace keel::cuda
