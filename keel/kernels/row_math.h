#pragma once

// What a row of logits says about its tokens, in the words that the CPU's and the GPU's kernels share:
// log-probabilities are the same function of the same few numbers in training and in sampling, on either machine.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "keel/core/philox.h"

namespace keel {

/// All that turns a row's logits z into probabilities p = exp((z - largest) / T - log_sum) at a temperature T. Sums are
/// taken without the largest token, so that neither p near 1 nor 1 - p loses a digit. A row with a NaN or with a
/// largest logit that is not finite is no distribution: its numbers are NaN.
struct RowNormalizer {
  double largest;     // the largest logit
  double log_sum;     // log of the sum over all tokens of exp((z - largest) / T); at least 0
  double log_others;  // log of that sum without the largest token; -inf where no other is possible
  double entropy;
};

/// Sums over a row, measured from its second largest logit: no term but the largest overflows, and not all underflow.
struct RowSums {
  double largest, second;  // the logits; the second is -inf where no other token is possible
  double total;            // sum of min(exp((z - second) / T), 1), to which the largest token adds 1
  double weighted;         // sum of the same terms times (z - second) / T, to which it adds nothing
};

KEEL_HOST_DEVICE inline RowNormalizer normalizer_of(const RowSums& s, double inverse_temperature) {
  const bool alone = std::isinf(s.second);
  double rest = alone ? s.total - s.total : s.total - 1;  // a number less itself is 0, or NaN
  if (!std::isfinite(s.largest)) rest = NAN;
  const double gap = (s.second - s.largest) * inverse_temperature, others = std::exp(gap) * rest;
  RowNormalizer n{s.largest, std::log1p(others), gap + std::log(rest), rest};
  // The largest token's -p log p, and those of the others, whose log p is (z - second) / T + gap - log_sum.
  if (!alone) n.entropy = (n.log_sum - std::exp(gap) * (s.weighted + rest * (gap - n.log_sum))) / (1 + others);
  return n;
}

KEEL_HOST_DEVICE inline double log_probability(const RowNormalizer& n, double logit, double inverse_temperature) {
  const double logp = (logit - n.largest) * inverse_temperature - n.log_sum;
  return logp > 0 ? 0 : logp;
}

/// log(1 - p) of the token whose log-probability is `logp`.
KEEL_HOST_DEVICE inline double other_log_probability(const RowNormalizer& n, double logit, double logp) {
  // A token that is not the largest has at most half of the probability: 1 - p is no smaller than p.
  const double other = logit == n.largest ? n.log_others - n.log_sum : std::log1p(-std::exp(logp));
  return other > 0 ? 0 : other;
}

/// exp(x / T) for differences of logits x <= 0, in float32, with an error of about 2e-7 of it that favours no sign.
/// Without a call and without a branch, so that loops over it vectorise; NaN stays NaN.
class TemperedExp {
 public:
  KEEL_HOST_DEVICE explicit TemperedExp(double inverse_temperature) {
    const double scale = inverse_temperature * 1.4426950408889634;  // log2(e): powers of two are taken
    high_ = static_cast<float>(scale);
    low_ = static_cast<float>(scale - high_);
    least_ = static_cast<float>(-64 / scale);
  }

  /// x held where it may be: the largest logit itself counts as the one it is measured from, and 2^-64, which is
  /// nothing beside 1, stands for all that is less. (Subnormal numbers, and products that are, cost a hundred times as
  /// much.)
  KEEL_HOST_DEVICE float held(float x) const {
#if defined(__CUDA_ARCH__)
    asm("min.NaN.f32 %0, %1, 0f00000000;" : "=f"(x) : "f"(x));  // one instruction, where a choice takes two
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(least_));
    return x;
#else
    x = x > 0 ? 0 : x;
    return x < least_ ? least_ : x;
#endif
  }
  KEEL_HOST_DEVICE bool is_nothing(float held) const { return held <= least_; }

  KEEL_HOST_DEVICE float operator()(float held) const {
#if defined(__CUDA_ARCH__)
    // The GPU's own power of two is off by 2^-22 at most, and needs one instruction where the sum below needs a dozen.
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(held, high_, held * low_)));
    return power;
#else
    const float y = held * high_;
    const float shifted = y + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which its last bits are
    const float n = shifted - 12582912.0f;
    const float f = (y - n) + held * low_;
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
  float high_, low_, least_;
};

/// A row's probabilities in float32, for what is summed over many tokens; one of less than 2^-64 is 0.
struct RowProbabilities {
  TemperedExp exp;
  float largest, of_largest;
  KEEL_HOST_DEVICE RowProbabilities(const RowNormalizer& n, double inverse_temperature)
      : exp(inverse_temperature),
        largest(static_cast<float>(n.largest)),
        of_largest(static_cast<float>(std::exp(-n.log_sum))) {}
  KEEL_HOST_DEVICE float operator()(float logit) const {
    const float x = exp.held(logit - largest);
    return exp.is_nothing(x) ? 0.0f : exp(x) * of_largest;
  }
};

/// What tokens add to the divergences of a row from the row of another policy mu.
struct TokenDivergences {
  RowProbabilities pi, mu;
  double inverse_temperature, log_ratio;  // of mu to pi, where their logits are equal
  KEEL_HOST_DEVICE TokenDivergences(const RowNormalizer& n, const RowNormalizer& behavior, double inverse_t)
      : pi(n, inverse_t),
        mu(behavior, inverse_t),
        inverse_temperature(inverse_t),
        log_ratio((n.largest - behavior.largest) * inverse_t + n.log_sum - behavior.log_sum) {}
  KEEL_HOST_DEVICE double distance(float logit, float behavior_logit) const {
    return std::fabs(pi(logit) - mu(behavior_logit));
  }
  /// mu log(mu / pi). What mu never gives adds nothing, whatever pi says of it.
  KEEL_HOST_DEVICE double kl(float logit, float behavior_logit) const {
    const double p = mu(behavior_logit);
    const double moved = (static_cast<double>(behavior_logit) - logit) * inverse_temperature;
    return p == 0 ? 0 : p * (moved + log_ratio);
  }
};

/// The loss -c log p(target) - e H of each row of logits.
struct LogitLoss {
  const int64_t* targets;             // [rows]
  const float* coefficients;          // [rows] c
  const float* entropy_coefficients;  // [rows] e, or null for none
};

/// Its gradient with respect to one row: (c (p_j - [j = t]) + e p_j (log p_j + H)) / T.
class LogitGradient {
 public:
  KEEL_HOST_DEVICE LogitGradient(const RowNormalizer& n, const LogitLoss& loss, int64_t row, double inverse_temperature)
      : probability_(n, inverse_temperature),
        c_(loss.coefficients[row] * inverse_temperature),
        e_(loss.entropy_coefficients ? loss.entropy_coefficients[row] * inverse_temperature : 0),
        weight_(static_cast<float>(c_ + e_ * (n.entropy - n.log_sum))),
        slope_(static_cast<float>(e_ * inverse_temperature)) {}

  /// Of a token that is not the target.
  KEEL_HOST_DEVICE float of_other(float logit) const {
    const float x = probability_.exp.held(logit - probability_.largest);
    return probability_(logit) * (weight_ + slope_ * x);
  }

  /// Of the target, whose 1 - p does not cancel.
  KEEL_HOST_DEVICE float of_target(const RowNormalizer& n, double logit, double inverse_temperature) const {
    const double logp = log_probability(n, logit, inverse_temperature), p = std::exp(logp);
    const double of_entropy = p == 0 ? 0 : e_ * p * (logp + n.entropy);  // 0 log 0 is 0
    return static_cast<float>(of_entropy - c_ * std::exp(other_log_probability(n, logit, logp)));
  }

 private:
  RowProbabilities probability_;
  double c_, e_;
  float weight_, slope_;
};

/// Gumbel noise from a word. Words next to 0 give the largest noise, where the uniform number has all its digits: the
/// noise reaches 22.9, so that a token of probability 1e-8 is drawn at its rate.
KEEL_HOST_DEVICE inline float gumbel(unsigned int word) { return -std::log(-std::log1p(-uniform(word))); }

struct NormalPair {
  float first, second;
};

/// Two independent normal numbers from two words, by Box and Muller.
KEEL_HOST_DEVICE inline NormalPair normal_pair(unsigned int word, unsigned int other) {
  const float radius = std::sqrt(-2 * std::log(uniform(word))), angle = 6.2831853f * uniform(other);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// The noise on the logits of four tokens in a row, of which the first is 4 * `block`: normal numbers of deviation 1.
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
