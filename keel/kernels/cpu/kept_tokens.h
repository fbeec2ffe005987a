#pragma once

#include <cstdint>

#include "keel/kernels/kept_rows.h"

namespace keel::cpu {

/// Writes a bitmap [rows, bitmap_words(vocab)] of the logits [rows, vocab] above -inf.
void pack_kept_tokens(const float* logits, int64_t rows, int64_t vocab, uint32_t* bitmaps);

/// Sets the logits [rows, vocab] of tokens that are not in their row's set to -inf.
void exclude_other_tokens(float* logits, int64_t rows, int64_t vocab, const KeptRowPointers& kept);

}  // namespace keel::cpu
