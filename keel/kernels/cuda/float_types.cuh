#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

/// Calls body with a null pointer of the type.
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

}  // namespace keel::cuda
