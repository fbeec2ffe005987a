#include "keel/ops/kept_rows.h"

#include <ATen/ATen.h>

#include "keel/kernels/cpu/kept_tokens.h"
#include "keel/kernels/cuda/kept_tokens.h"
#include "keel/ops/parallel_rows.h"

namespace keel {

KeptRows KeptRows::rows(int64_t begin, int64_t count) const {
  if (!defined()) return {};
  return {sizes.narrow(0, begin, count), begins.narrow(0, begin, count), words};
}

Tensor kept_token_bitmaps(const Tensor& logits) {
  const Tensor contiguous = logits.contiguous();
  const int64_t rows = logits.size(0), vocab = logits.size(1), words = bitmap_words(vocab);
  const Tensor bitmaps = at::empty({rows, words}, logits.options().dtype(at::kInt));
  const float* const from = contiguous.const_data_ptr<float>();
  auto* const to = reinterpret_cast<uint32_t*>(bitmaps.mutable_data_ptr<int32_t>());
  run_row_kernel(
      contiguous, "packing kept tokens",
      [&](auto stream) { return cuda::pack_kept_tokens(from, rows, vocab, to, stream); },
      [&](int64_t begin, int64_t count) {
        cpu::pack_kept_tokens(from + begin * vocab, count, vocab, to + begin * words);
      });
  return bitmaps;
}

void exclude_other_tokens(const Tensor& logits, const KeptRows& kept) {
  if (!kept.defined()) return;
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  float* const to = logits.mutable_data_ptr<float>();
  const KeptRowPointers sets{kept.sizes.const_data_ptr<int32_t>(), kept.begins.const_data_ptr<int64_t>(),
                             reinterpret_cast<const uint32_t*>(kept.words.const_data_ptr<int32_t>())};
  run_row_kernel(
      logits, "excluding tokens",
      [&](auto stream) { return cuda::exclude_other_tokens(to, rows, vocab, sets, stream); },
      [&](int64_t begin, int64_t count) {
        cpu::exclude_other_tokens(to + begin * vocab, count, vocab,
                                  {sets.sizes + begin, sets.begins + begin, sets.words});
      });
}

}  // namespace keel
