#pragma once

#include <cstdint>

#include "keel/kernels/kept_rows.h"

// The functions of keel/kernels/cpu/kept_tokens.h on device pointers, on `stream` (a cudaStream_t). Each returns a CUDA
// error code or 0.

namespace keel::cuda {

int pack_kept_tokens(const float* logits, int64_t rows, int64_t vocab, uint32_t* bitmaps, void* stream);

int exclude_other_tokens(float* logits, int64_t rows, int64_t vocab, const KeptRowPointers& kept, void* stream);

}  // namespace keel::cuda
