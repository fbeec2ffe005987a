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

/// Logits [rows, vocab] whose sums are difficult in float32: many terms of one size, a long tail, or one dominant
/// token.
inline Tensor hard_logits(const std::string& kind, int64_t rows, int64_t vocab, uint64_t seed) {
  const Tensor index = at::arange(vocab, at::kDouble), each = random_normal({rows, 1}, seed, at::kDouble);
  if (kind == "normal") return random_normal({rows, vocab}, seed) * 3;
  if (kind == "zipf") return (7 * each - (1.2 + 0.2 * each.tanh()) * (index + 1).log()).to(at::kFloat);
  // The probability ranges from average to almost 1. It differs by row and seed, so that rounding errors do as well.
  const Tensor peak = 26 * (at::arange(rows, at::kDouble).unsqueeze(1) + each.sigmoid()) / static_cast<double>(rows);
  const Tensor hot = at::arange(rows, at::kLong).mul(7).remainder(vocab).unsqueeze(1);
  return (7 * each).expand({rows, vocab}).scatter_add(1, hot, peak).to(at::kFloat);
}

// Numbers of results whose mean shows a bias of 1e-7 in spite of rounding to float32. The rounding error has mean 0.
// Its root mean square is 2.8e-7 between -8 and -16, and twice that between -16 and -32. For the mean of n results, it
// is divided by sqrt(n). Sampled tokens have log-probs above -16: 2e-8 for 192 of them. Others reach -38 (7e-7): 3e-8
// for 768 rows. The equal tokens of a one-hot row count as one.
constexpr int64_t kDrawnForAMean = 192, kRowsForAMean = 768;

/// Small enough for the allocator to reuse the memory: larger tensors are returned to the system each time.
constexpr int64_t kRowsAtATime = 16;

/// Computes in float64 the log-prob of one token per row and of all its other tokens together.
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

/// Errors of log-probs against float64. Trainer and sampler must have no bias and errors of about one float32 rounding.
class LogProbErrors {
 public:
  void add(const Tensor& logp, const Tensor& expected) {
    const Tensor error = logp.cpu().to(at::kDouble) - expected;
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
