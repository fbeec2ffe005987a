#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "keel/core/kept_tokens.h"
#include "keel/ops/kept_rows.h"

namespace keel {

/// The rank of each number within its row [M, N], from 0 for the smallest.
inline Tensor ranks_in_rows(const Tensor& x) {
  return at::argsort(at::argsort(x, int64_t{1}, false), int64_t{1}, false);
}

/// The tokens of each row with logits above -inf, as the sampler records them.
inline KeptTokens to_kept_tokens(const Tensor& logits) {
  KeptTokens kept{.vocab = logits.size(1)};
  const Tensor bitmaps = kept_token_bitmaps(logits).cpu();
  for (int64_t row = 0; row < bitmaps.size(0); ++row)
    kept.append(reinterpret_cast<const uint32_t*>(bitmaps.const_data_ptr<int32_t>()) + row * bitmaps.size(1));
  return kept;
}

/// The sets as the head gets them.
inline KeptRows to_kept_rows(const KeptTokens& kept, at::Device device = at::kCPU) {
  std::vector<int64_t> begins;
  int64_t begin = 0;
  for (const int32_t size : kept.sizes) begins.push_back(begin), begin += kept_words(size, kept.vocab);
  const std::vector<int32_t> words(kept.words.begin(), kept.words.end());
  return {at::tensor(kept.sizes, at::kInt).to(device), at::tensor(begins, at::kLong).to(device),
          at::tensor(words, at::kInt).to(device)};
}

}  // namespace keel
