#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/core/philox.h"

namespace keel {

/// Larger sets of kept tokens are stored as bitmaps.
constexpr int64_t kMaxKeptIds = 1024;

/// The number of 32-bit words of a bitmap over the vocabulary.
KEEL_HOST_DEVICE inline int64_t bitmap_words(int64_t vocab) { return (vocab + 31) / 32; }

/// The number of 32-bit words that store a set of `size` tokens: none for the whole vocabulary, else its ids in
/// ascending order, or a bitmap of a large set.
KEEL_HOST_DEVICE inline int64_t kept_words(int64_t size, int64_t vocab) {
  if (size == vocab) return 0;
  return size <= kMaxKeptIds ? size : bitmap_words(vocab);
}

/// The sets of tokens that truncated sampling (top-k, top-p, min-p) chose from, one set for each sampled token.
struct KeptTokens {
  int64_t vocab = 0;                 // size of the vocabulary
  std::vector<int32_t> sizes = {};   // [M] number of tokens in each set; empty: sampling was not truncated
  std::vector<uint32_t> words = {};  // kept_words() of each set, one set after another

  /// Appends the set with this bitmap of bitmap_words(vocab) words.
  void append(const uint32_t* bitmap) {
    const int64_t count = bitmap_words(vocab);
    const size_t begin = words.size();
    int64_t size = 0, i = 0;
    for (; i < count && size <= kMaxKeptIds; ++i) {
      if (bitmap[i] == 0) continue;  // most words
      size += std::popcount(bitmap[i]);
      for (uint32_t bits = bitmap[i]; bits != 0; bits &= bits - 1)
        words.push_back(static_cast<uint32_t>(32 * i + std::countr_zero(bits)));
    }
    for (; i < count; ++i) size += std::popcount(bitmap[i]);
    sizes.push_back(static_cast<int32_t>(size));
    if (size <= kMaxKeptIds && size < vocab) return;
    words.resize(begin);
    if (size < vocab) words.insert(words.end(), bitmap, bitmap + count);
  }

  int64_t bytes() const { return static_cast<int64_t>(4 * (sizes.size() + words.size())); }
  bool operator==(const KeptTokens&) const = default;
};

}  // namespace keel
