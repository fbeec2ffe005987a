#pragma once

#include <cstdint>

namespace keel::cuda {

/// Writes the first `count` initial weights of a parameter (keel/kernels/initial_weights.h) to device memory, on
/// `stream` (a cudaStream_t). Returns a CUDA error code or 0.
int initial_weights(float* weights, int64_t count, double deviation, uint64_t seed, uint64_t parameter, void* stream);

}  // namespace keel::cuda
