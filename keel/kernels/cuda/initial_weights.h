#pragma once

#include <cstdint>

namespace keel::cuda {

/// The first `count` initial weights of a parameter (keel/kernels/initial_weights.h) into device memory, on `stream` (a
/// cudaStream_t). Returns a CUDA error code, 0 for none.
int initial_weights(float* weights, int64_t count, double deviation, uint64_t seed, uint64_t parameter, void* stream);

}  // namespace keel::cuda
