#pragma once

#include <cstdint>

namespace keel::cuda {

// Filters of logits [rows, vocab]: copies with the logits of some tokens set to -inf. They read each row five or six
// times instead of sorting it, and the result does not depend on the order of the threads. NaN stays. Device pointers,
// on `stream` (a cudaStream_t). They return a CUDA error code or 0.

/// Keeps the logits that fewer than k logits exceed.
int keep_top_k(const float* logits, int64_t rows, int64_t vocab, int64_t k, float* kept, void* stream);

/// Excludes tokens whose more likely tokens (of equally likely ones the lower ids) have at least the probability
/// `top_p` at this temperature.
int keep_top_p(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature, double top_p, float* kept,
               void* stream);

}  // namespace keel::cuda
