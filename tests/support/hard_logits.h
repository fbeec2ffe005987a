#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/support/effort.h"
#include "tests/support/tensors.h"

namespace keel {

inline const std::vector<std::string> kHardLogits{"normal", "zipf", "one_hot"};
inline const std::vector<double> kTemperatures = count(std::vector{0.7}, std::vector{1.0, 0.7});
inline const std::vector<int64_t> kVocabularies =
    count(std::vector<int64_t>{26, 151936}, std::vector<int64_t>{26, 49152, 151936});

/// Logits [rows, vocab] whose sums are easily wrong in float32: many terms of one size, a long tail, one token against
/// all others.
inline Tensor hard_logits(const std::string& kind, int64_t rows, int64_t vocab, uint64_t seed) {
  const Tensor place = at::arange(vocab, at::kDouble), each = random_normal({rows, 1}, seed, at::kDouble);
  if (kind == "normal") return random_normal({rows, vocab}, seed) * 3;
  if (kind == "zipf") return (7 * each - (1.2 + 0.2 * each.tanh()) * (place + 1).log()).to(at::kFloat);
  // From a token like any other to a sure one; each row and seed its own, for the roundings of equal ones are equal
  // too.
  const Tensor sure = 26 * (at::arange(rows, at::kDouble).unsqueeze(1) + each.sigmoid()) / static_cast<double>(rows);
  const Tensor hot = at::arange(rows, at::kLong).mul(7).remainder(vocab).unsqueeze(1);
  return (7 * each).expand({rows, vocab}).scatter_add(1, hot, sure).to(at::kFloat);
}

// How many results show a bias of 1e-7 through their rounding to float32, whose errors are 0 on average: one between
// -8 and -16 is off by 2.8e-7 in the mean square, one between -16 and -32 by twice that, and so on, and the mean of n
// of them by 1/sqrt(n) of it. Tokens that are drawn have log-probabilities above -16: 2e-8 for 192 of them. Any tokens
// go down to -38 (7e-7 in the mean square): 3e-8 for 768 rows; all but one of a one-hot row are equal, and count as
// one.
constexpr int64_t kDrawnForAMean = 192, kRowsForAMean = 768;

/// So few that the memory of one is used again for the next: more are given back to the system each time.
constexpr int64_t kRowsAtATime = 16;

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

/// The errors of log-probabilities against float64. What the trainer and the sampler owe each other: no bias, and
/// hardly more than one rounding to float32.
class LogProbErrors {
 public:
  void add(const Tensor& logp, const Tensor& want) {
    const Tensor error = logp.cpu().to(at::kDouble) - want;
    sum_ += error.sum().item<double>();
    count_ += error.numel();
    largest_ = std::max(largest_, error.abs().max().item<double>());
  }
  void expect_no_bias() const {
    EXPECT_GE(count_, kDrawnForAMean);
    EXPECT_LT(std::abs(sum_ / static_cast<double>(count_)), 1e-7);
    EXPECT_LT(largest_, 4e-6);
  }

 private:
  double sum_ = 0, largest_ = 0;
  int64_t count_ = 0;
};

}  // namespace keel
