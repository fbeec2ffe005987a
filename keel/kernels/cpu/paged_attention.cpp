#include "keel/kernels/cpu/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "keel/kernels/cpu/exponential.h"
#include "keel/kernels/cpu/lanes.h"

namespace keel::cpu {
namespace {

KEEL_INLINE float* keys_of(const KvCachePointers& layer) { return static_cast<float*>(layer.keys); }
KEEL_INLINE float* values_of(const KvCachePointers& layer) { return static_cast<float*>(layer.values); }

/// The scores of a block's kBlockTokens keys, each one chain of multiply-adds over the dimensions.
template <int Width>
KEEL_INLINE void score_block(const float* query, const float* keys, int64_t width, float scale, float* scores) {
  using Vector = typename Lanes<Width>::Vector;
  using InMemory = typename Lanes<Width>::InMemory;
  constexpr int kVectors = kBlockTokens / Width;
  Vector sum[kVectors] = {};
  for (int64_t d = 0; d < width; ++d)
    for (int v = 0; v < kVectors; ++v)
      sum[v] += query[d] * *reinterpret_cast<const InMemory*>(keys + d * kBlockTokens + v * Width);
  for (int v = 0; v < kVectors; ++v) *reinterpret_cast<InMemory*>(scores + v * Width) = sum[v] * scale;
}

/// Writes the scores of the keys [first, count) of a run of blocks; `scores` has room for whole blocks.
template <int Width>
KEEL_INLINE void score_run(const KvCachePointers& layer, int64_t head, const float* query, const int32_t* blocks,
                           int64_t first, int64_t count, float scale, float* scores) {
  for (int64_t block = first / kBlockTokens; block * kBlockTokens < count; ++block)
    score_block<Width>(query, keys_of(layer) + (blocks[block] * layer.kv_heads + head) * layer.width * kBlockTokens,
                       layer.width, scale, scores + block * kBlockTokens);
}

/// Adds the values of the keys [first, count), each times its weight; `Vectors` vectors of a head at a time.
template <int Width, int Vectors>
KEEL_INLINE void add_values(const KvCachePointers& layer, int64_t head, const int32_t* blocks, int64_t first,
                            int64_t count, const float* weights, int64_t dimension,
                            typename Lanes<Width>::Vector* sum) {
  using InMemory = typename Lanes<Width>::InMemory;
  for (int64_t key = first; key < count; ++key) {
    const float* const value =
        values_of(layer) + dimension +
        ((blocks[key / kBlockTokens] * layer.kv_heads + head) * kBlockTokens + key % kBlockTokens) * layer.width;
    for (int v = 0; v < Vectors; ++v) sum[v] += weights[key] * *reinterpret_cast<const InMemory*>(value + v * Width);
  }
}

/// What a row sees, as pointers.
struct Seen {
  const int32_t *prompt, *own;
  int64_t prompt_keys, own_keys;
};

template <int Width, int Vectors>
KEEL_INLINE void weigh_values(const KvCachePointers& layer, int64_t head, const Seen& seen, int64_t first,
                              const float* weights, float inverse_sum, int64_t dimension, float* out) {
  using InMemory = typename Lanes<Width>::InMemory;
  typename Lanes<Width>::Vector sum[Vectors] = {};
  add_values<Width, Vectors>(layer, head, seen.prompt, std::min(first, seen.prompt_keys), seen.prompt_keys, weights,
                             dimension, sum);
  add_values<Width, Vectors>(layer, head, seen.own, std::max<int64_t>(first - seen.prompt_keys, 0), seen.own_keys,
                             weights + seen.prompt_keys, dimension, sum);
  for (int v = 0; v < Vectors; ++v) *reinterpret_cast<InMemory*>(out + dimension + v * Width) = sum[v] * inverse_sum;
}

/// exp(x - largest) in place; returns their sum, in an order that depends on the count alone.
KEEL_INLINE float exponentials(float* x, int64_t count, float largest) {
  float partial[kBlockTokens] = {};
  int64_t i = 0;
  for (; i + kBlockTokens <= count; i += kBlockTokens)
    for (int64_t j = 0; j < kBlockTokens; ++j) partial[j] += x[i + j] = exponential(x[i + j] - largest);
  for (int64_t j = 0; i + j < count; ++j) partial[j] += x[i + j] = exponential(x[i + j] - largest);
  float sum = 0;
  for (int64_t j = 0; j < kBlockTokens; ++j) sum += partial[j];
  return sum;
}

template <int Width>
KEEL_INLINE void attend_head(const KvCachePointers& layer, int64_t kv_head, const PagedAttentionConfig& config,
                             const Seen& seen, const float* query, float* scores, float* out) {
  const int64_t keys = seen.prompt_keys + seen.own_keys, width = layer.width;
  const int64_t first = config.window > 0 ? std::max<int64_t>(keys - config.window, 0) : 0;
  // The prompt's last block may be scored beyond its keys: the own ones overwrite that.
  score_run<Width>(layer, kv_head, query, seen.prompt, std::min(first, seen.prompt_keys), seen.prompt_keys,
                   config.scale, scores);
  score_run<Width>(layer, kv_head, query, seen.own, std::max<int64_t>(first - seen.prompt_keys, 0), seen.own_keys,
                   config.scale, scores + seen.prompt_keys);
  float largest = -INFINITY;
  for (int64_t i = first; i < keys; ++i) {
    if (config.softcap > 0) scores[i] = std::tanh(scores[i] / config.softcap) * config.softcap;
    largest = scores[i] > largest ? scores[i] : largest;
  }
  const float inverse_sum = 1 / exponentials(scores + first, keys - first, largest);
  constexpr int64_t kAtOnce = 64;  // dimensions: sums enough to hide how long an addition takes
  int64_t d = 0;
  for (; d + kAtOnce <= width; d += kAtOnce)
    weigh_values<Width, kAtOnce / Width>(layer, kv_head, seen, first, scores, inverse_sum, d, out);
  for (; d + Width <= width; d += Width)
    weigh_values<Width, 1>(layer, kv_head, seen, first, scores, inverse_sum, d, out);
  for (; d < width; ++d) weigh_values<1, 1>(layer, kv_head, seen, first, scores, inverse_sum, d, out);
}

template <int Width>
KEEL_INLINE void attend(const KvCachePointers& layer, const PagedAttentionConfig& config, const int32_t* tables,
                        const PagedRow* rows, int64_t count, const float* query, int64_t heads, float* scores,
                        float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const Seen seen{tables + rows[i].prompt_table, tables + rows[i].own_table, rows[i].prompt_keys, rows[i].own_keys};
    for (int64_t head = 0; head < heads; ++head, query += layer.width, out += layer.width)
      attend_head<Width>(layer, head * layer.kv_heads / heads, config, seen, query, scores, out);
  }
}

#define KEEL_ATTEND                                                                                              \
  const KvCachePointers &layer, const PagedAttentionConfig &config, const int32_t *tables, const PagedRow *rows, \
      int64_t count, const float *query, int64_t heads, float *scores, float *out
KEEL_FOR_EACH_WIDTH(attend, KEEL_ATTEND, (layer, config, tables, rows, count, query, heads, scores, out))

}  // namespace

void store_rows(const KvCachePointers& layer, const int32_t* tables, const PagedRow* rows, int64_t count,
                const float* key, const float* value) {
  const int64_t width = layer.width;
  for (int64_t i = 0; i < count; ++i) {
    const bool own = rows[i].own_keys > 0;
    const int32_t* const table = tables + (own ? rows[i].own_table : rows[i].prompt_table);
    const int64_t place = (own ? rows[i].own_keys : rows[i].prompt_keys) - 1, token = place % kBlockTokens;
    for (int64_t head = 0; head < layer.kv_heads; ++head, key += width, value += width) {
      const int64_t begin = (table[place / kBlockTokens] * layer.kv_heads + head) * width * kBlockTokens;
      for (int64_t d = 0; d < width; ++d) keys_of(layer)[begin + d * kBlockTokens + token] = key[d];
      std::copy_n(value, width, values_of(layer) + begin + token * width);
    }
  }
}

void attend_rows(KEEL_ATTEND) {
  static const auto best = best_attend();
  best(layer, config, tables, rows, count, query, heads, scores, out);
}
#undef KEEL_ATTEND

}  // namespace keel::cpu
