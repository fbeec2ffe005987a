#include "keel/kernels/cpu/sample.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace keel::cpu {
namespace {

/// Upper bound of the noise from a word: -log u with u rounded down to a power of two (0.693148 is above log 2).
float noise_bound(uint32_t word) { return 0.693148f * static_cast<float>(33 - std::bit_width(word)); }

/// The token with the largest (z - largest) / T + Gumbel noise; the first of equal ones.
int64_t perturbed_argmax(const float* row, double largest, int64_t vocab, double inverse_temperature, uint64_t seed,
                         uint64_t rollout, uint32_t position) {
  int64_t best = 0;
  float best_value = -std::numeric_limits<float>::infinity();
  for (int64_t begin = 0; begin < vocab; begin += 4) {
    const PhiloxBlock noise =
        random_block(seed, Stream::kSampling, rollout, position, static_cast<uint32_t>(begin / 4));
    const int64_t end = std::min(begin + 4, vocab);
    for (int64_t token = begin; token < end; ++token) {
      const uint32_t word = noise.word[token - begin];
      const float tempered = static_cast<float>((row[token] - largest) * inverse_temperature);
      if (tempered + noise_bound(word) <= best_value) continue;  // skips two logarithms for most tokens
      const float value = tempered + gumbel(word);
      if (value > best_value) {
        best_value = value;
        best = token;
      }
    }
  }
  return best;
}

}  // namespace

void sample_tokens(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                   double temperature, uint64_t seed, const int64_t* rollout_ids, const int64_t* positions,
                   int64_t* tokens) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = logits + i * vocab;
    tokens[i] = temperature == 0
                    ? std::max_element(row, row + vocab) - row
                    : perturbed_argmax(row, normalizers[i].largest, vocab, 1 / temperature, seed,
                                       static_cast<uint64_t>(rollout_ids[i]), static_cast<uint32_t>(positions[i]));
  }
}

void add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                     const int64_t* rollout_ids, const int64_t* positions) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t begin = 0; begin < vocab; begin += 4) {
      const LogitNoise noise(seed, static_cast<uint64_t>(rollout_ids[i]), static_cast<uint32_t>(positions[i]),
                             static_cast<uint32_t>(begin / 4));
      const int64_t end = std::min(begin + 4, vocab);
      for (int64_t token = begin; token < end; ++token)
        logits[i * vocab + token] += static_cast<float>(deviation) * noise.of[token - begin];
    }
}

}  // namespace keel::cpu
