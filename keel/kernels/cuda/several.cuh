#pragma once

#include <cstdint>

#include "keel/kernels/cuda/float_types.cuh"

namespace keel::cuda {

/// As the tensor library's operators one after the other round, and the trainer with them.
template <class T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

/// Numbers that a thread loads and stores together.
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Several {
  T of[N];
};

constexpr int kSeveral = 8;

/// Whether rows that begin there, `stride` apart and `width` wide, can be read several numbers at a time.
inline bool in_several(const void* begin, int64_t stride, int64_t width) {
  return reinterpret_cast<uintptr_t>(begin) % 16 == 0 && stride % kSeveral == 0 && width % kSeveral == 0;
}

}  // namespace keel::cuda
