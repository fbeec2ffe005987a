#pragma once

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The sets of tokens that truncated sampling kept, for rows of logits on the same device. Undefined: all tokens.
struct KeptRows {
  Tensor sizes;   // [M] int32: number of tokens in each set
  Tensor begins;  // [M] int64: where the set's words begin
  Tensor words;   // [W] int32: as in KeptTokens

  bool defined() const { return sizes.defined(); }
  KeptRows rows(int64_t begin, int64_t count) const;
};

/// Returns bitmaps [M, bitmap_words(V)] int32 of the tokens with logits [M, V] above -inf.
Tensor kept_token_bitmaps(const Tensor& logits);

/// Sets the logits [M, V] of tokens that are not in their row's set to -inf, in place. The distribution of the result
/// is the truncated one: its other probabilities are 0. Does nothing if `kept` is undefined.
void exclude_other_tokens(const Tensor& logits, const KeptRows& kept);

}  // namespace keel
