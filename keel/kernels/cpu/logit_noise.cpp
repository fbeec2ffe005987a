#include "keel/kernels/cpu/logit_noise.h"

#include <algorithm>

namespace keel::cpu {

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
