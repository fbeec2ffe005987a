#include "keel/kernels/cpu/kept_tokens.h"

#include <algorithm>
#include <limits>

namespace keel::cpu {

namespace {
constexpr float kExcludedLogit = -std::numeric_limits<float>::infinity();
}  // namespace

void pack_kept_tokens(const float* logits, int64_t rows, int64_t vocab, uint32_t* bitmaps) {
  for (int64_t i = 0; i < rows; ++i, logits += vocab)
    for (int64_t begin = 0; begin < vocab; begin += 32) {
      uint32_t bits = 0;
      for (int64_t token = begin; token < std::min(begin + 32, vocab); ++token)
        bits |= (logits[token] > kExcludedLogit ? 1u : 0u) << (token - begin);
      *bitmaps++ = bits;
    }
}

void exclude_other_tokens(float* logits, int64_t rows, int64_t vocab, const KeptRowPointers& kept) {
  float values[kMaxKeptIds];
  for (int64_t i = 0; i < rows; ++i, logits += vocab) {
    const int64_t size = kept.sizes[i];
    const uint32_t* const words = kept.words + kept.begins[i];
    if (size == vocab) continue;
    if (size > kMaxKeptIds) {
      for (int64_t token = 0; token < vocab; ++token)
        if ((words[token / 32] >> token % 32 & 1) == 0) logits[token] = kExcludedLogit;
      continue;
    }
    for (int64_t j = 0; j < size; ++j) values[j] = logits[words[j]];
    std::fill_n(logits, vocab, kExcludedLogit);
    for (int64_t j = 0; j < size; ++j) logits[words[j]] = values[j];
  }
}

}  // namespace keel::cpu
