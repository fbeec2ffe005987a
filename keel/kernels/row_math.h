#pragma once

// Log-probs, entropies and divergences of rows of logits. CPU and GPU kernels, for training and for sampling, share
// these functions.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "keel/core/philox.h"
#include "keel/core/token_weight.h"

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
  bool single;                            // both have one token only, so that a fused multiply-add must not round
  KEEL_HOST_DEVICE TokenDivergences(const RowNormalizer& n, const RowNormalizer& behavior, double inverse_t)
      : pi(n, inverse_t),
        mu(behavior, inverse_t),
        inverse_temperature(inverse_t),
        log_ratio((n.largest - behavior.largest) * inverse_t + n.log_sum - behavior.log_sum),
        single(std::isinf(n.log_others) && std::isinf(behavior.log_others)) {}
  KEEL_HOST_DEVICE double distance(float logit, float behavior_logit) const {
    return std::fabs(pi(logit) - mu(behavior_logit));
  }
  /// mu log(mu / pi); 0 if mu is 0.
  KEEL_HOST_DEVICE double kl(float logit, float behavior_logit) const {
    const double mu_j = mu(behavior_logit);
    const double logit_difference = (static_cast<double>(behavior_logit) - logit) * inverse_temperature;
    return mu_j == 0 ? 0 : mu_j * (logit_difference + log_ratio);
  }
  /// KL(mu || pi) from the sum of kl() over all tokens.
  KEEL_HOST_DEVICE float row_kl(double sum) const { return static_cast<float>(sum < 0 || single ? 0 : sum); }
};

/// mu w of the tokens of a row: their probability under the policy mu times a method's weight.
class WeightedBehavior {
 public:
  KEEL_HOST_DEVICE WeightedBehavior(const RowNormalizer& n, const RowNormalizer& behavior, const TokenWeight& weight,
                                    double inverse_temperature)
      : terms_(n, behavior, inverse_temperature),
        w_(weight),
        largest_other_pi_(static_cast<float>(std::exp(n.log_others - n.log_sum))),
        largest_other_mu_(static_cast<float>(std::exp(behavior.log_others - behavior.log_sum))),
        needs_kl_(weight.max_kl_rise < HUGE_VALF || weight.max_kl_fall < HUGE_VALF),
        needs_ratio_(weight.inverse || weight.ratio_slope != 0 || weight.decay != 0 || weight.tail_power != 0) {}

  KEEL_HOST_DEVICE float operator()(float logit, float behavior_logit) const {
    const float pi = terms_.pi(logit), mu = terms_.mu(behavior_logit), rise = pi - mu;
    bool blocked = (pi < w_.min_ratio * mu || pi > w_.max_ratio * mu) && mu >= w_.rare_mu;
    blocked = blocked || rise > w_.max_rise || -rise > w_.max_fall;
    float value = clamp(pi, w_.min_weight * mu, w_.max_weight * mu);
    if (std::fabs(rise) > w_.slope_from) value *= 1 - w_.slope * rise;
    if (needs_kl_)
      blocked = blocked || binary_kl(logit, behavior_logit, pi, mu) > (rise > 0 ? w_.max_kl_rise : w_.max_kl_fall);
    if (needs_ratio_) value = with_ratio(value, mu, log_ratio(logit, behavior_logit));
    return mu > 0 ? (blocked ? 0 : value) : mu;  // NaN stays NaN
  }

 private:
  KEEL_HOST_DEVICE static float clamp(float x, float min, float max) { return x < min ? min : x > max ? max : x; }

  /// log pi - log mu.
  KEEL_HOST_DEVICE float log_ratio(float logit, float behavior_logit) const {
    return static_cast<float>((static_cast<double>(logit) - behavior_logit) * terms_.inverse_temperature -
                              terms_.log_ratio);
  }

  /// KL(mu || pi) of the distribution {this token, any other}.
  KEEL_HOST_DEVICE float binary_kl(float logit, float behavior_logit, float pi, float mu) const {
    const float other_pi = logit == terms_.pi.largest ? largest_other_pi_ : 1 - pi;
    const float other_mu = behavior_logit == terms_.mu.largest ? largest_other_mu_ : 1 - mu;
    const float other_term = other_mu == 0 ? 0 : other_mu * (std::log(other_mu) - std::log(other_pi));
    return other_term - mu * log_ratio(logit, behavior_logit);
  }

  KEEL_HOST_DEVICE float with_ratio(float value, float mu, float log_ratio) const {
    const float ratio = std::exp(clamp(log_ratio, -20, 20));
    if (w_.inverse) value = mu * clamp(1 / ratio, w_.min_weight, w_.max_weight);
    if (w_.decay != 0) {
      const float decayed = 1 / std::cosh(w_.decay * (ratio - 1));  // 0 if cosh overflows
      value *= decayed * decayed;
    }
    if (ratio < w_.tail_below && w_.tail_power != 0) value *= std::pow(ratio / w_.tail_below, w_.tail_power);
    if (ratio > w_.tail_above) value *= std::pow(ratio / w_.tail_above, w_.tail_power);
    return value * (1 - w_.ratio_slope * (ratio - 1));
  }

  TokenDivergences terms_;
  TokenWeight w_;
  float largest_other_pi_, largest_other_mu_;  // 1 - p of the most likely token
  bool needs_kl_, needs_ratio_;
};

/// pointer + count; null stays null.
template <class T>
const T* advance(const T* pointer, int64_t count) {
  return pointer == nullptr ? nullptr : pointer + count;
}

/// Score centering: the loss A sum_v m_v log p_v of each row, with constant masses m. They are mu w of a method (exact
/// form), or those of `count` listed tokens and a multiple of p for all others (top-K form).
struct ScoreMasses {
  const float* advantages = nullptr;  // [rows] A, or null for no centering
  const float* totals = nullptr;      // [rows] sum of m
  // Exact form.
  const float* behavior_logits = nullptr;  // [rows, vocab] of mu, or null for the top-K form
  const RowNormalizer* behavior_normalizers = nullptr;
  TokenWeights weights = {};
  // Top-K form.
  const int64_t* ids = nullptr;   // [rows, count]; ids outside the vocabulary are skipped
  const float* masses = nullptr;  // [rows, count]
  const float* others = nullptr;  // [rows] m/p of tokens that are not listed
  int64_t count = 0;

  /// The masses of the rows from `begin`.
  ScoreMasses from_row(int64_t begin, int64_t vocab) const {
    ScoreMasses part = *this;
    part.advantages = advance(advantages, begin), part.totals = advance(totals, begin);
    part.behavior_logits = advance(behavior_logits, begin * vocab);
    part.behavior_normalizers = advance(behavior_normalizers, begin);
    part.ids = advance(ids, begin * count), part.masses = advance(masses, begin * count);
    part.others = advance(others, begin);
    return part;
  }
};

/// The loss -c log p(target) - e H of each row of logits, and score centering.
struct LogitLoss {
  const int64_t* targets;             // [rows]
  const float* coefficients;          // [rows] c
  const float* entropy_coefficients;  // [rows] e, or null for none
  ScoreMasses centering = {};

  /// The loss of the rows from `begin`.
  LogitLoss from_row(int64_t begin, int64_t vocab) const {
    return {targets + begin, coefficients + begin, advance(entropy_coefficients, begin),
            centering.from_row(begin, vocab)};
  }
};

/// The weight of a row for the sign of its advantage.
KEEL_HOST_DEVICE inline TokenWeight weight_for(const TokenWeights& weights, float advantage) {
  return advantage > 0 ? weights.positive : weights.negative;
}

/// Gradient of LogitLoss with respect to one row:
/// (c (p_j - [j = t]) + e p_j (log p_j + H) + A (m_j - p_j sum m)) / T.
class LogitGradient {
 public:
  KEEL_HOST_DEVICE LogitGradient(const RowNormalizer& n, const LogitLoss& loss, int64_t row, double inverse_temperature)
      : probability_(n, inverse_temperature),
        c_(loss.coefficients[row] * inverse_temperature),
        e_(loss.entropy_coefficients ? loss.entropy_coefficients[row] * inverse_temperature : 0),
        advantage_(loss.centering.advantages ? loss.centering.advantages[row] * inverse_temperature : 0),
        total_(loss.centering.advantages ? loss.centering.totals[row] : 0),
        other_mass_(loss.centering.others ? loss.centering.others[row] : 0),
        weight_(static_cast<float>(c_ + e_ * (n.entropy - n.log_sum) - advantage_ * total_)),
        unlisted_weight_(static_cast<float>(weight_ + advantage_ * other_mass_)),
        slope_(static_cast<float>(e_ * inverse_temperature)) {}

  /// Gradient at a token other than the target, without a mass of its own: p (weight + slope_ (z - largest)).
  KEEL_HOST_DEVICE float at_other(float logit) const {
    const float x = probability_.exp.clamp(logit - probability_.largest);
    return probability_(logit) * (unlisted_weight_ + slope_ * x);
  }

  /// The same for a token of mass m.
  KEEL_HOST_DEVICE float at_other(float logit, float mass) const {
    const float x = probability_.exp.clamp(logit - probability_.largest);
    return probability_(logit) * (weight_ + slope_ * x) + static_cast<float>(advantage_) * mass;
  }

  /// Gradient at the target, of mass m. Computes 1 - p without cancellation.
  KEEL_HOST_DEVICE float at_target(const RowNormalizer& n, double logit, double inverse_temperature,
                                   double mass) const {
    const double logp = log_probability(n, logit, inverse_temperature), p = std::exp(logp);
    const double entropy_part = p == 0 ? 0 : e_ * p * (logp + n.entropy);  // 0 log 0 is 0
    return static_cast<float>(entropy_part - c_ * std::exp(other_log_probability(n, logit, logp)) +
                              advantage_ * (mass - p * total_));
  }

  /// The mass of a token that is not listed.
  KEEL_HOST_DEVICE double unlisted_mass(float logit) const { return other_mass_ * probability_(logit); }

 private:
  RowProbabilities probability_;
  double c_, e_, advantage_, total_, other_mass_;
  float weight_, unlisted_weight_, slope_;
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
