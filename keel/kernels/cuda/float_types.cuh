#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

/// Calls body with a null pointer to the C++ type.
template <class Body>
void for_type(FloatType type, const Body& body) {
  switch (type) {
    case FloatType::kFloat32:
      return body(static_cast<float*>(nullptr));
    case FloatType::kBfloat16:
      return body(static_cast<__nv_bfloat16*>(nullptr));
    case FloatType::kFloat16:
      return body(static_cast<__half*>(nullptr));
  }
}

/// Rounds to T and back, as an intermediate result of separate PyTorch operators.
template <class T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

/// N elements that a thread loads or stores at once.
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Vector {
  T of[N];
};

constexpr int kVectorSize = 8;

/// Returns whether rows of this stride and width can be read kVectorSize elements at a time.
inline bool can_vectorize(const void* begin, int64_t stride, int64_t width) {
  return reinterpret_cast<uintptr_t>(begin) % 16 == 0 && stride % kVectorSize == 0 && width % kVectorSize == 0;
}

}  // namespace keel::cuda
