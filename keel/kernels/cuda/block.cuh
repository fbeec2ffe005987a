#pragma once

#include "keel/kernels/cuda/row_chunks.cuh"

namespace keel::cuda {

/// Folds `value` over the block by `fold`; every thread gets the result. `shared` has kThreads entries.
template <class T, class Fold>
__device__ T reduce(T value, T* shared, Fold fold) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = fold(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const T result = shared[0];
  __syncthreads();
  return result;
}

}  // namespace keel::cuda
