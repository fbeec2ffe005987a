#include "keel/kernels/cpu/filters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "keel/kernels/cpu/target.h"
#include "keel/kernels/row_math.h"

namespace keel::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  int64_t token;
  /// Returns whether the other candidate is more likely.
  bool operator<(const Candidate& other) const {
    return logit != other.logit ? logit < other.logit : token > other.token;
  }
};

KEEL_CPU_KERNEL float find_largest(const float* row, int64_t vocab) {
  float largest = kMinusInfinity;
#pragma omp simd reduction(max : largest)
  for (int64_t token = 0; token < vocab; ++token) largest = row[token] > largest ? row[token] : largest;
  return largest;
}

/// The sum of exp((z - largest) / T) over logits z below `bound`; NaN if the row has a NaN or +inf.
KEEL_CPU_KERNEL double sum_below(const float* row, int64_t vocab, float bound, float largest,
                                 double inverse_temperature) {
  const TemperedExp exp(inverse_temperature);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t token = 0; token < vocab; ++token) {
    const float term = exp(exp.clamp(row[token] - largest));
    sum += row[token] >= bound ? 0 : term;
  }
  return sum;
}

}  // namespace

void keep_top_p(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature, double top_p,
                float* kept) {
  // Tokens below the probability (1 - top_p) / vocab sum to less than 1 - top_p, so none of them is inside. Terms are
  // relative to the largest logit and sum to at least 1, so a term below this bound has a probability below it.
  const double min_gap = std::log((1 - top_p) / static_cast<double>(vocab)) / inverse_temperature;
  std::vector<Candidate> candidates;
  for (int64_t i = 0; i < rows; ++i, logits += vocab, kept += vocab) {
    const float largest = find_largest(logits, vocab), bound = static_cast<float>(largest + min_gap);
    const auto probability = [&](const Candidate& candidate) {
      return std::exp((static_cast<double>(candidate.logit) - largest) * inverse_temperature);
    };
    candidates.clear();
    for (int64_t token = 0; token < vocab; ++token)
      if (logits[token] >= bound) candidates.push_back({logits[token], token});
    double total = sum_below(logits, vocab, bound, largest, inverse_temperature);
    for (const Candidate& candidate : candidates) total += probability(candidate);
    if (!std::isfinite(total)) {
      std::copy_n(logits, vocab, kept);
      continue;
    }
    std::fill_n(kept, vocab, kMinusInfinity);
    std::make_heap(candidates.begin(), candidates.end());
    for (double sum = 0; sum < top_p * total && !candidates.empty();) {
      const Candidate best = candidates.front();
      kept[best.token] = best.logit;
      sum += probability(best);
      std::pop_heap(candidates.begin(), candidates.end());
      candidates.pop_back();
    }
  }
}

}  // namespace keel::cpu
