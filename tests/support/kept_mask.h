#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "keel/core/kept_tokens.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

/// The sets as a mask [M, V] bool. A set of all tokens has no words, one of up to 1,024 tokens its ids, a larger one a
/// bitmap.
inline Tensor kept_mask(const KeptTokens& kept) {
  const Tensor mask = at::zeros({static_cast<int64_t>(kept.sizes.size()), kept.vocab}, at::kBool);
  bool* row = mask.mutable_data_ptr<bool>();
  size_t next = 0;
  for (const int32_t size : kept.sizes) {
    if (size == kept.vocab) {
      std::fill_n(row, kept.vocab, true);
    } else if (size <= 1024) {
      for (int32_t i = 0; i < size; ++i) row[kept.words.at(next++)] = true;
    } else {
      for (int64_t token = 0; token < kept.vocab; ++token)
        row[token] = (kept.words.at(next + token / 32) >> (token % 32) & 1) != 0;
      next += (kept.vocab + 31) / 32;
    }
    row += kept.vocab;
  }
  return mask;
}

}  // namespace keel
