#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "keel/ops/paged_attention.h"
#include "tests/support/tensors.h"

namespace keel {

/// A prompt and a completion whose keys and values are written to a KV cache token by token, as in decoding.
class PagedAttentionCase {
 public:
  static constexpr int64_t kKvHeads = 2, kShared = 3, kHeads = kKvHeads * kShared, kBlocks = 40;

  PagedAttentionCase(int64_t prompt, int64_t own, int64_t width, at::TensorOptions options = at::kFloat)
      : prompt_(prompt), own_(own), options_(options) {
    const auto normal = [&](int64_t heads, uint64_t seed) {
      return random_normal({prompt + own, heads, width}, seed).to(options);
    };
    query_ = normal(kHeads, 1), key_ = normal(kKvHeads, 2), value_ = normal(kKvHeads, 3);
    // Unwritten elements are NaN, so that reading them fails the test.
    const double unwritten = std::numeric_limits<double>::quiet_NaN();
    layer_ = {at::full({kBlocks, kKvHeads, width, kBlockTokens}, unwritten, options),
              at::full({kBlocks, kKvHeads, kBlockTokens, width}, unwritten, options)};
  }

  /// Makes the whole sequence a prompt.
  void make_all_prompt() { prompt_ += std::exchange(own_, 0); }

  /// Prefills the prompt, then decodes token by token.
  Tensor decoded(const AttentionConfig& attention) const {
    std::vector<Tensor> parts{pass(attention, 0, prompt_)};
    for (int64_t i = prompt_; i < prompt_ + own_; ++i) parts.push_back(pass(attention, i, i + 1));
    return at::cat(parts);
  }

  /// Reference softmax(q k scale) v in float64 with contiguous keys.
  Tensor expected(const AttentionConfig& attention) const {
    const Tensor q = query_.cpu().to(at::kDouble).transpose(0, 1),
                 k = key_.cpu().to(at::kDouble).repeat_interleave(kShared, 1).transpose(0, 1),
                 v = value_.cpu().to(at::kDouble).repeat_interleave(kShared, 1).transpose(0, 1);
    Tensor scores = at::matmul(q, k.transpose(1, 2)) * attention.scale;
    if (attention.softcap > 0) scores = (scores / attention.softcap).tanh() * attention.softcap;
    const Tensor positions = at::arange(prompt_ + own_, at::kLong),
                 distance = positions.unsqueeze(1) - positions.unsqueeze(0);
    Tensor masked = distance < 0;
    if (attention.window > 0) masked = masked.logical_or(distance >= attention.window);
    return at::matmul(at::softmax(scores.masked_fill(masked, -std::numeric_limits<double>::infinity()), -1), v)
        .transpose(0, 1);
  }

  /// Attends the rows [begin, end) in one pass. `first_block` sets where the blocks are.
  Tensor pass(const AttentionConfig& attention, int64_t begin, int64_t end, int32_t first_block = 0) const {
    std::vector<int32_t> tables;
    const auto blocks_of = [](int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; };
    for (int64_t i = 0; i < blocks_of(prompt_) + blocks_of(own_); ++i)
      tables.push_back(static_cast<int32_t>((first_block + 7 * i) % kBlocks));  // scattered
    const auto own_table = static_cast<int32_t>(blocks_of(prompt_));
    std::vector<PagedRow> rows;
    for (int64_t i = begin; i < end; ++i)
      rows.push_back({0, static_cast<int32_t>(std::min(i + 1, prompt_)), own_table,
                      static_cast<int32_t>(std::max<int64_t>(i + 1 - prompt_, 0))});
    const auto part = [&](const Tensor& x) { return x.narrow(0, begin, end - begin); };
    return PagedAttention(rows, tables, options_.device())
        .attend(layer_, attention, {part(query_), part(key_), part(value_)});
  }

 private:
  int64_t prompt_, own_;
  at::TensorOptions options_;
  Tensor query_, key_, value_;
  KvCacheLayer layer_;
};

/// Attention parameters that models use.
inline const std::vector<AttentionConfig> kAttentionConfigs = {
    {.scale = 0.3}, {.scale = 0.5, .softcap = 2}, {.scale = 0.4, .window = 5}, {.scale = 0.4, .window = 40}};

}  // namespace keel
