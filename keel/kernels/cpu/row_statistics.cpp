#include "keel/kernels/cpu/row_statistics.h"

#include <vector>

#include "keel/kernels/cpu/target.h"

namespace keel::cpu {
namespace {

constexpr int kLanes = 16;  // fixed, so that the order of summation does not depend on the machine's vector width

/// Calls body with blocks of kLanes logits; the last block is padded with -inf.
template <class Body>
[[gnu::always_inline]] inline void for_blocks(const float* row, int64_t vocab, const Body& body) {
  for (; vocab >= kLanes; row += kLanes, vocab -= kLanes) body(row);
  if (vocab == 0) return;
  float last[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) last[lane] = lane < vocab ? row[lane] : -INFINITY;
  body(last);
}

/// Reduces the lanes pairwise.
template <class Fold>
[[gnu::always_inline]] inline void fold_lanes(const Fold& fold) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) fold(lane, lane + half);
}

/// Updates the two largest numbers.
[[gnu::always_inline]] inline void keep_two(float x, float& first, float& second) {
  const float lower = x < first ? x : first;
  second = lower > second ? lower : second;
  first = x > first ? x : first;
}

[[gnu::always_inline]] inline RowSums compute_sums(const float* row, int64_t vocab, double inverse_temperature) {
  float first[kLanes], second[kLanes];
  double total[kLanes], weighted[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    first[lane] = second[lane] = -INFINITY;
    total[lane] = weighted[lane] = 0;
  }
  for_blocks(
      row, vocab, [&](const float* block) __attribute__((always_inline)) {
#pragma omp simd
        for (int lane = 0; lane < kLanes; ++lane) keep_two(block[lane], first[lane], second[lane]);
      });
  fold_lanes([&](int a, int b) __attribute__((always_inline)) {
    keep_two(first[b], first[a], second[a]);
    keep_two(second[b], first[a], second[a]);
  });
  const TemperedExp exp(inverse_temperature);
  const float centre = std::isinf(second[0]) ? first[0] : second[0];
  for_blocks(
      row, vocab, [&](const float* block) __attribute__((always_inline)) {
#pragma omp simd
        for (int lane = 0; lane < kLanes; ++lane) {
          const float x = exp.clamp(block[lane] - centre), term = exp(x);
          total[lane] += term;
          weighted[lane] += term * x;
        }
      });
  fold_lanes([&](int a, int b) __attribute__((always_inline)) {
    total[a] += total[b];
    weighted[a] += weighted[b];
  });
  return {first[0], second[0], total[0], weighted[0] * inverse_temperature};
}

}  // namespace

KEEL_CPU_KERNEL void normalize_rows(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature,
                                    RowNormalizer* normalizers) {
  for (int64_t i = 0; i < rows; ++i)
    normalizers[i] = make_normalizer(compute_sums(logits + i * vocab, vocab, inverse_temperature), inverse_temperature);
}

void token_log_probabilities(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                             double inverse_temperature, const int64_t* ids, int64_t count, float* logps,
                             float* other_logps) {
  for (int64_t i = 0; i < rows * count; ++i) {
    const RowNormalizer& n = normalizers[i / count];
    const double logit = logits[i / count * vocab + ids[i]], logp = log_probability(n, logit, inverse_temperature);
    logps[i] = static_cast<float>(logp);
    if (other_logps) other_logps[i] = static_cast<float>(other_log_probability(n, logit, logp));
  }
}

KEEL_CPU_KERNEL void row_divergences(const float* logits, const RowNormalizer* normalizers,
                                     const float* behavior_logits, const RowNormalizer* behavior_normalizers,
                                     int64_t rows, int64_t vocab, double inverse_temperature, float* total_variations,
                                     float* kls) {
  for (int64_t i = 0; i < rows; ++i, logits += vocab, behavior_logits += vocab) {
    const TokenDivergences terms(normalizers[i], behavior_normalizers[i], inverse_temperature);
    double distance = 0, kl = 0;
#pragma omp simd reduction(+ : distance, kl)
    for (int64_t token = 0; token < vocab; ++token) {
      distance += terms.distance(logits[token], behavior_logits[token]);
      kl += terms.kl(logits[token], behavior_logits[token]);
    }
    total_variations[i] = static_cast<float>(distance / 2);
    kls[i] = terms.row_kl(kl);
  }
}

KEEL_CPU_KERNEL void weighted_masses(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                                     double inverse_temperature, const ScoreMasses& centering, float* totals) {
  const float* behavior_logits = centering.behavior_logits;
  for (int64_t i = 0; i < rows; ++i, logits += vocab, behavior_logits += vocab) {
    const WeightedBehavior mass(normalizers[i], centering.behavior_normalizers[i],
                                weight_for(centering.weights, centering.advantages[i]), inverse_temperature);
    double total = 0;
    for (int64_t token = 0; token < vocab; ++token) total += mass(logits[token], behavior_logits[token]);
    totals[i] = static_cast<float>(total);
  }
}

KEEL_CPU_KERNEL void logits_to_gradients(float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                                         double inverse_temperature, const LogitLoss& loss) {
  const ScoreMasses& centering = loss.centering;
  for (int64_t i = 0; i < rows; ++i, logits += vocab) {
    const LogitGradient gradient(normalizers[i], loss, i, inverse_temperature);
    const int64_t target = loss.targets[i];
    const float target_logit = logits[target];
    double target_mass = gradient.unlisted_mass(target_logit);
    if (centering.behavior_logits != nullptr) {
      const float* const behavior_logits = centering.behavior_logits + i * vocab;
      const WeightedBehavior mass(normalizers[i], centering.behavior_normalizers[i],
                                  weight_for(centering.weights, centering.advantages[i]), inverse_temperature);
      target_mass = mass(target_logit, behavior_logits[target]);
      for (int64_t token = 0; token < vocab; ++token)
        logits[token] = gradient.at_other(logits[token], mass(logits[token], behavior_logits[token]));
    } else {
      std::vector<float> listed_gradients;
      for (int64_t k = 0; k < centering.count; ++k) {
        const int64_t id = centering.ids[i * centering.count + k];
        const float mass = centering.masses[i * centering.count + k];
        if (id == target) target_mass = mass;
        listed_gradients.push_back(id < 0 || id >= vocab ? 0 : gradient.at_other(logits[id], mass));
      }
#pragma omp simd
      for (int64_t token = 0; token < vocab; ++token) logits[token] = gradient.at_other(logits[token]);
      for (int64_t k = 0; k < centering.count; ++k) {
        const int64_t id = centering.ids[i * centering.count + k];
        if (id >= 0 && id < vocab) logits[id] = listed_gradients[static_cast<size_t>(k)];
      }
    }
    logits[target] = gradient.at_target(normalizers[i], target_logit, inverse_temperature, target_mass);
  }
}

}  // namespace keel::cpu
