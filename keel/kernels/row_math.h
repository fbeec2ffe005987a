#pragma once

// Log-probs, entropies and divergences of rows of logits. CPU and GPU kernels, for training and for sampling, share
// these functions.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "keel/core/philox.h"

namespace keel {

/// Turns a row's logits z into probabilities p = exp((z - largest) / T - log_sum) at temperature T. Sums exclude the
/// largest token, so that p near 1 and 1 - p keep their precision. For a row with a NaN, or whose largest logit is not
/// finite, the fields are NaN.
struct RowNormalizer {
  double largest;     // the largest logit
  double log_sum;     // log of the sum over all tokens of exp((z - largest) / T); at least 0
  double log_others;  // log of that sum without the largest token; -inf if all others are masked
  double entropy;
};

/// Sums over a row, relative to its second largest logit. Its term is 1, so the sums do not underflow; the term of the
/// largest logit could overflow and is limited to 1.
struct RowSums {
  double largest, second;  // logits; `second` is -inf if all others are masked
  double total;            // sum of min(exp((z - second) / T), 1); the largest token adds 1
  double weighted;         // sum of the same terms times (z - second) / T; the largest token adds 0
};

KEEL_HOST_DEVICE inline RowNormalizer make_normalizer(const RowSums& s, double inverse_temperature) {
  const bool single = std::isinf(s.second);
  double rest = single ? s.total - s.total : s.total - 1;  // x - x is 0, or NaN for NaN
  if (!std::isfinite(s.largest)) rest = NAN;
  const double gap = (s.second - s.largest) * inverse_temperature, others = std::exp(gap) * rest;
  RowNormalizer n{s.largest, std::log1p(others), gap + std::log(rest), rest};
  // -p log p of the largest token, plus that of the others, whose log p is (z - second) / T + gap - log_sum.
  if (!single) n.entropy = (n.log_sum - std::exp(gap) * (s.weighted + rest * (gap - n.log_sum))) / (1 + others);
  return n;
}

KEEL_HOST_DEVICE inline double log_probability(const RowNormalizer& n, double logit, double inverse_temperature) {
  const double logp = (logit - n.largest) * inverse_temperature - n.log_sum;
  return logp > 0 ? 0 : logp;
}

/// log(1 - p) of the token whose log-probability is `logp`.
KEEL_HOST_DEVICE inline double other_log_probability(const RowNormalizer& n, double logit, double logp) {
  // Any other token has p of at most 1/2, so 1 - exp(logp) does not cancel.
  const double other = logit == n.largest ? n.log_others - n.log_sum : std::log1p(-std::exp(logp));
  return other > 0 ? 0 : other;
}

/// exp(x / T) for differences of logits x <= 0, in float32, with a relative error of about 2e-7 and without bias. It
/// has no calls and no branches, so that loops over it vectorise. NaN stays NaN.
class TemperedExp {
 public:
  KEEL_HOST_DEVICE explicit TemperedExp(double inverse_temperature) {
    const double scale =
        inverse_temperature * 1.4426950408889634;  // log2(e), because the result is computed as a power of two
    high_ = static_cast<float>(scale);
    low_ = static_cast<float>(scale - high_);
    min_ = static_cast<float>(-64 / scale);
  }

  /// Limits x to at most 0, and from below so that the result is at least 2^-64, which is negligible next to 1.
  /// (Subnormal numbers are a hundred times slower.)
  KEEL_HOST_DEVICE float clamp(float x) const {
#if defined(__CUDA_ARCH__)
    asm("min.NaN.f32 %0, %1, 0f00000000;" : "=f"(x) : "f"(x));  // one instruction; a conditional takes two
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(min_));
    return x;
#else
    x = x > 0 ? 0 : x;
    return x < min_ ? min_ : x;
#endif
  }
  KEEL_HOST_DEVICE bool is_negligible(float clamped) const { return clamped <= min_; }

  KEEL_HOST_DEVICE float operator()(float clamped) const {
#if defined(__CUDA_ARCH__)
    // One instruction, with an error of at most 2^-22, instead of the polynomial below.
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(clamped, high_, clamped * low_)));
    return power;
#else
    const float y = clamped * high_;
    const float shifted = y + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which its last bits are
    const float n = shifted - 12582912.0f;
    const float f = (y - n) + clamped * low_;
    float p = 1.5353361857767923e-4f;  // 2^f on [-1/2, 1/2], minimax, and 1 at 0
    p = p * f + 1.339887448753736e-3f;
    p = p * f + 9.618437358471397e-3f;
    p = p * f + 5.5503324709259665e-2f;
    p = p * f + 0.24022647913615688f;
    p = p * f + 0.6931472028551707f;
    p = p * f + 1.0f;
    uint32_t bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits << 23) + (127u << 23);
    float power;
    std::memcpy(&power, &bits, sizeof(power));
    return p * power;
#endif
  }

 private:
  float high_, low_, min_;
};

/// A row's probabilities in float32, for sums over many tokens. Those below 2^-64 become 0.
struct RowProbabilities {
  TemperedExp exp;
  float largest, largest_probability;
  KEEL_HOST_DEVICE RowProbabilities(const RowNormalizer& n, double inverse_temperature)
      : exp(inverse_temperature),
        largest(static_cast<float>(n.largest)),
        largest_probability(static_cast<float>(std::exp(-n.log_sum))) {}
  KEEL_HOST_DEVICE float operator()(float logit) const {
    const float x = exp.clamp(logit - largest);
    return exp.is_negligible(x) ? 0.0f : exp(x) * largest_probability;
  }
};

/// Terms of the divergences of a row from the same row of another policy mu.
struct TokenDivergences {
  RowProbabilities pi, mu;
  double inverse_temperature, log_ratio;  // of mu to pi for equal logits
  KEEL_HOST_DEVICE TokenDivergences(const RowNormalizer& n, const RowNormalizer& behavior, double inverse_t)
      : pi(n, inverse_t),
        mu(behavior, inverse_t),
        inverse_temperature(inverse_t),
        log_ratio((n.largest - behavior.largest) * inverse_t + n.log_sum - behavior.log_sum) {}
  KEEL_HOST_DEVICE double distance(float logit, float behavior_logit) const {
    return std::fabs(pi(logit) - mu(behavior_logit));
  }
  /// mu log(mu / pi); 0 if mu is 0.
  KEEL_HOST_DEVICE double kl(float logit, float behavior_logit) const {
    const double mu_j = mu(behavior_logit);
    const double logit_difference = (static_cast<double>(behavior_logit) - logit) * inverse_temperature;
    return mu_j == 0 ? 0 : mu_j * (logit_difference + log_ratio);
  }
};

/// The loss -c log p(target) - e H of each row of logits.
struct LogitLoss {
  const int64_t* targets;             // [rows]
  const float* coefficients;          // [rows] c
  const float* entropy_coefficients;  // [rows] e, or null for none
};

/// Gradient of LogitLoss with respect to one row: (c (p_j - [j = t]) + e p_j (log p_j + H)) / T.
class LogitGradient {
 public:
  KEEL_HOST_DEVICE LogitGradient(const RowNormalizer& n, const LogitLoss& loss, int64_t row, double inverse_temperature)
      : probability_(n, inverse_temperature),
        c_(loss.coefficients[row] * inverse_temperature),
        e_(loss.entropy_coefficients ? loss.entropy_coefficients[row] * inverse_temperature : 0),
        weight_(static_cast<float>(c_ + e_ * (n.entropy - n.log_sum))),
        slope_(static_cast<float>(e_ * inverse_temperature)) {}

  /// Gradient at a token other than the target: p (weight_ + slope_ (z - largest)).
  KEEL_HOST_DEVICE float at_other(float logit) const {
    const float x = probability_.exp.clamp(logit - probability_.largest);
    return probability_(logit) * (weight_ + slope_ * x);
  }

  /// Gradient at the target. Computes 1 - p without cancellation.
  KEEL_HOST_DEVICE float at_target(const RowNormalizer& n, double logit, double inverse_temperature) const {
    const double logp = log_probability(n, logit, inverse_temperature), p = std::exp(logp);
    const double entropy_part = p == 0 ? 0 : e_ * p * (logp + n.entropy);  // 0 log 0 is 0
    return static_cast<float>(entropy_part - c_ * std::exp(other_log_probability(n, logit, logp)));
  }

 private:
  RowProbabilities probability_;
  double c_, e_;
  float weight_, slope_;
};

/// Gumbel noise from a random word. Words near 0, where the uniform number is most precise, give the largest noise. It
/// reaches 22.9, so that a token of probability 1e-8 is sampled at the right rate.
KEEL_HOST_DEVICE inline float gumbel(unsigned int word) { return -std::log(-std::log1p(-uniform(word))); }

struct NormalPair {
  float first, second;
};

/// Two independent normal numbers from two random words (Box-Muller).
KEEL_HOST_DEVICE inline NormalPair normal_pair(unsigned int word, unsigned int other) {
  const float radius = std::sqrt(-2 * std::log(uniform(word))), angle = 6.2831853f * uniform(other);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Standard normal noise for the logits of the tokens 4 block to 4 block + 3.
struct LogitNoise {
  float of[4];
  KEEL_HOST_DEVICE LogitNoise(unsigned long long seed, unsigned long long rollout, unsigned int position,
                              unsigned int block) {
    const PhiloxBlock words = random_block(seed, Stream::kLogitNoise, rollout, position, block);
    for (int i = 0; i < 4; i += 2) {
      const NormalPair pair = normal_pair(words.word[i], words.word[i + 1]);
      of[i] = pair.first;
      of[i + 1] = pair.second;
    }
  }
};

}  // namespace keel
