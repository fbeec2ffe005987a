#pragma once

#include <cstdint>

namespace keel::cuda {

/// Copies the logits [rows, vocab] and sets those of tokens outside the nucleus to -inf: outside are tokens whose more
/// likely tokens (of equally likely ones the lower ids) have at least the probability `top_p` at this temperature.
/// Reads each row six times instead of sorting it. The result does not depend on the order of the threads. NaN stays.
/// Device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code or 0.
int keep_top_p(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature, double top_p, float* kept,
               void* stream);

}  // namespace keel::cuda
