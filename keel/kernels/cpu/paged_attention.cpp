#include "keel/kernels/cpu/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "keel/kernels/cpu/exponential.h"
#include "keel/kernels/cpu/lanes.h"

namespace keel::cpu {
namespace {

KEEL_INLINE float* keys_of(const KvCachePointers& layer) { return static_cast<float*>(layer.keys); }
KEEL_INLINE float* values_of(const KvCachePointers& layer) { return static_cast<float*>(layer.values); }

/// Scores the keys of one block; each score is one chain of multiply-adds over the dimensions.
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

/// Scores the keys [first, count) of a block table; `scores` must hold whole blocks.
template <int Width>
KEEL_INLINE void score_keys(const KvCachePointers& layer, int64_t head, const float* query, const int32_t* blocks,
                            int64_t first, int64_t count, float scale, float* scores) {
  for (int64_t block = first / kBlockTokens; block * kBlockTokens < count; ++block)
    score_block<Width>(query, keys_of(layer) + (blocks[block] * layer.kv_heads + head) * layer.width * kBlockTokens,
                       layer.width, scale, scores + block * kBlockTokens);
}

/// Adds the weighted values of the keys [first, count), for `Vectors` vectors of the head's dimensions.
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

/// The keys that a row attends to: those of its prompt, then its own.
struct AttendedKeys {
  const int32_t *prompt, *own;
  int64_t prompt_keys, own_keys;
};

template <int Width, int Vectors>
KEEL_INLINE void weigh_values(const KvCachePointers& layer, int64_t head, const AttendedKeys& keys, int64_t first,
                              const float* weights, float inverse_sum, int64_t dimension, float* out) {
  using InMemory = typename Lanes<Width>::InMemory;
  typename Lanes<Width>::Vector sum[Vectors] = {};
  add_values<Width, Vectors>(layer, head, keys.prompt, std::min(first, keys.prompt_keys), keys.prompt_keys, weights,
                             dimension, sum);
  add_values<Width, Vectors>(layer, head, keys.own, std::max<int64_t>(first - keys.prompt_keys, 0), keys.own_keys,
                             weights + keys.prompt_keys, dimension, sum);
  for (int v = 0; v < Vectors; ++v) *reinterpret_cast<InMemory*>(out + dimension + v * Width) = sum[v] * inverse_sum;
}

/// Computes exp(x - largest) in place. Returns the sum; its order depends only on the count.
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
                             const AttendedKeys& keys, const float* query, float* scores, float* out) {
  const int64_t count = keys.prompt_keys + keys.own_keys, width = layer.width;
  const int64_t first = config.window > 0 ? std::max<int64_t>(count - config.window, 0) : 0;
  // Scores beyond the prompt's last key are overwritten by those of the own keys.
  score_keys<Width>(layer, kv_head, query, keys.prompt, std::min(first, keys.prompt_keys), keys.prompt_keys,
                    config.scale, scores);
  score_keys<Width>(layer, kv_head, query, keys.own, std::max<int64_t>(first - keys.prompt_keys, 0), keys.own_keys,
                    config.scale, scores + keys.prompt_keys);
  float largest = -INFINITY;
  for (int64_t i = first; i < count; ++i) {
    if (config.softcap > 0) scores[i] = std::tanh(scores[i] / config.softcap) * config.softcap;
    largest = scores[i] > largest ? scores[i] : largest;
  }
  const float inverse_sum = 1 / exponentials(scores + first, count - first, largest);
  constexpr int64_t kAtOnce = 64;  // dimensions; enough independent sums to hide the latency of additions
  int64_t d = 0;
  for (; d + kAtOnce <= width; d += kAtOnce)
    weigh_values<Width, kAtOnce / Width>(layer, kv_head, keys, first, scores, inverse_sum, d, out);
  for (; d + Width <= width; d += Width)
    weigh_values<Width, 1>(layer, kv_head, keys, first, scores, inverse_sum, d, out);
  for (; d < width; ++d) weigh_values<1, 1>(layer, kv_head, keys, first, scores, inverse_sum, d, out);
}

template <int Width>
KEEL_INLINE void attend(const KvCachePointers& layer, const PagedAttentionConfig& config, const int32_t* tables,
                        const PagedRow* rows, int64_t count, const float* query, int64_t heads, float* scores,
                        float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const AttendedKeys keys{tables + rows[i].prompt_table, tables + rows[i].own_table, rows[i].prompt_keys,
                            rows[i].own_keys};
    for (int64_t head = 0; head < heads; ++head, query += layer.width, out += layer.width)
      attend_head<Width>(layer, head * layer.kv_heads / heads, config, keys, query, scores, out);
  }
}

#define KEEL_ATTEND_PARAMETERS                                                                                   \
  const KvCachePointers &layer, const PagedAttentionConfig &config, const int32_t *tables, const PagedRow *rows, \
      int64_t count, const float *query, int64_t heads, float *scores, float *out
KEEL_FOR_EACH_WIDTH(attend, KEEL_ATTEND_PARAMETERS, (layer, config, tables, rows, count, query, heads, scores, out))

}  // namespace

void store_rows(const KvCachePointers& layer, const int32_t* tables, const PagedRow* rows, int64_t count,
                const float* key, const float* value) {
  const int64_t width = layer.width;
  for (int64_t i = 0; i < count; ++i) {
    const bool own = rows[i].own_keys > 0;
    const int32_t* const table = tables + (own ? rows[i].own_table : rows[i].prompt_table);
    const int64_t index = (own ? rows[i].own_keys : rows[i].prompt_keys) - 1, token = index % kBlockTokens;
    for (int64_t head = 0; head < layer.kv_heads; ++head, key += width, value += width) {
      const int64_t begin = (table[index / kBlockTokens] * layer.kv_heads + head) * width * kBlockTokens;
      for (int64_t d = 0; d < width; ++d) keys_of(layer)[begin + d * kBlockTokens + token] = key[d];
      std::copy_n(value, width, values_of(layer) + begin + token * width);
    }
  }
}

void attend_rows(KEEL_ATTEND_PARAMETERS) {
  static const auto best = best_attend();
  best(layer, config, tables, rows, count, query, heads, scores, out);
}
#undef KEEL_ATTEND_PARAMETERS

}  // namespace keel::cpu
