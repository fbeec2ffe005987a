#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/tensors.h"

namespace keel {

inline const std::vector<std::string> kHardLogits{"normal", "zipf", "one_hot"};
inline const std::vector<int64_t> kVocabularies{26, 49152, 151936};

/// Logits [rows, vocab] whose sums are easily wrong in float32: many terms of one size, a long tail, one token against
/// all others.
inline Tensor hard_logits(const std::string& kind, int64_t rows, int64_t vocab, uint64_t seed) {
  const Tensor place = at::arange(vocab, at::kDouble), each = random_normal({rows, 1}, seed, at::kDouble);
  if (kind == "normal") return random_normal({rows, vocab}, seed) * 3;
  if (kind == "zipf") return (7 * each - (1.2 + 0.2 * each.tanh()) * (place + 1).log()).to(at::kFloat);
  Tensor logits = (7 * each).expand({rows, vocab}).clone();
  for (int64_t row = 0; row < rows; ++row)  // from a token like any other to a sure one
    logits[row][row * 7 % vocab] += 26.0 * static_cast<double>(row) / static_cast<double>(rows);
  return logits.to(at::kFloat);
}

/// Log-probabilities of one token of each row in float64, and those of all its other tokens together.
struct ExactLogProbs {
  ExactLogProbs(const Tensor& logits, double temperature, const Tensor& ids) {
    const Tensor tempered = logits.to(at::kDouble) / temperature, id = ids.unsqueeze(1);
    const Tensor sum = tempered.logsumexp(1);
    logp = tempered.gather(1, id).squeeze(1) - sum;
    // The sum over the others where p is large, log(1 - p) where it is small: neither cancels.
    const Tensor others = tempered.scatter(1, id, -std::numeric_limits<double>::infinity()).logsumexp(1) - sum;
    other_logp = at::where(logp < -1, (-logp.exp()).log1p(), others);
  }
  Tensor logp, other_logp;
};

/// What the trainer and the sampler owe each other: no bias, and nothing beyond one rounding to float32. The mean is
/// taken against the truth rounded once: where a row's tokens are equal their roundings are too, and would hide a bias.
inline void expect_no_bias(const Tensor& logp, const Tensor& want) {
  const Tensor got = logp.cpu().to(at::kDouble);
  EXPECT_LT(std::abs((got - want.to(at::kFloat).to(at::kDouble)).mean().item<double>()), 1e-7);
  EXPECT_LT((got - want).abs().max().item<double>(), 4e-6);
}

}  // namespace keel
