#include "keel/kernels/cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "keel/core/philox.h"

namespace keel::cpu {
namespace {

/// The index of the largest logit / temperature + Gumbel noise; the first one among equals.
int64_t perturbed_argmax(const float* row, int64_t vocab, float inverse_temperature, uint64_t seed, uint64_t rollout,
                         uint32_t position) {
  int64_t best = 0;
  float best_value = -std::numeric_limits<float>::infinity();
  for (int64_t begin = 0; begin < vocab; begin += 4) {
    const PhiloxBlock noise =
        random_block(seed, Stream::kSampling, rollout, position, static_cast<uint32_t>(begin / 4));
    const int64_t end = std::min(begin + 4, vocab);
    for (int64_t token = begin; token < end; ++token) {
      const float gumbel = -std::log(-std::log(uniform(noise.word[token - begin])));
      const float value = row[token] * inverse_temperature + gumbel;
      if (value > best_value) {
        best_value = value;
        best = token;
      }
    }
  }
  return best;
}

}  // namespace

void sample_tokens(const float* logits, int64_t rows, int64_t vocab, float temperature, uint64_t seed,
                   const int64_t* rollout_ids, const int64_t* positions, int64_t* tokens, float* logps) {
  const bool greedy = temperature == 0.0f;
  const float inverse_temperature = greedy ? 1.0f : 1.0f / temperature;
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = logits + i * vocab;
    const float largest = *std::max_element(row, row + vocab);
    double sum = 0;
    for (int64_t token = 0; token < vocab; ++token) sum += std::exp((row[token] - largest) * inverse_temperature);
    tokens[i] = greedy ? std::max_element(row, row + vocab) - row
                       : perturbed_argmax(row, vocab, inverse_temperature, seed, static_cast<uint64_t>(rollout_ids[i]),
                                          static_cast<uint32_t>(positions[i]));
    const double logp = (row[tokens[i]] - largest) * inverse_temperature - std::log(sum);
    logps[i] = static_cast<float>(std::min(logp, 0.0));
  }
}

}  // namespace keel::cpu
