#include "keel/objective/certificate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "keel/core/error.h"
#include "keel/objective/aggregation.h"
#include "keel/objective/divergence.h"

namespace keel {
namespace {

void check_shapes(const CertificateSamples& samples) {
  int64_t tokens = 0;
  for (const int64_t length : samples.lengths) tokens += length;
  if (tokens != std::ssize(samples.logp) || samples.logp.size() != samples.behavior_logp.size() ||
      samples.logp.size() != samples.divergences.size() || samples.rewards.size() != samples.lengths.size())
    fail(ExitCode::kInternal, "a certificate from sequences of ", tokens, " tokens got ", samples.logp.size(),
         " log-probs, ", samples.behavior_logp.size(), " behavior log-probs, ", samples.divergences.size(),
         " divergences and, for ", samples.lengths.size(), " sequences, ", samples.rewards.size(), " rewards");
}

/// Where these do not hold the theorem does not either.
void check_premises(const CertificateSamples& samples) {
  constexpr std::array kKnown{"binary_tv", "topk_tv", "full_tv", "unnamed"};
  if (std::ranges::find(kKnown, samples.divergence) == kKnown.end())
    fail(ExitCode::kInternal, "a certificate from the divergence \"", samples.divergence,
         "\"; known: binary_tv, topk_tv, full_tv, unnamed");
  for (const int64_t length : samples.lengths)
    if (length < 0 || length > samples.horizon)
      fail(ExitCode::kInternal, "a sequence of ", length, " tokens under a certificate's horizon of ", samples.horizon);
  for (const double reward : samples.rewards)
    if (!(std::abs(reward) <= samples.xi))
      fail(ExitCode::kInternal, "a reward of ", reward, " under a certificate's xi of ", samples.xi);
  for (const double divergence : samples.divergences)
    if (!(divergence >= 0)) fail(ExitCode::kInternal, "a total variation of ", divergence, " in a certificate");
}

/// pi / mu - 1, by expm1: most tokens are near 0.
double excess_ratio(double logp, double behavior_logp) {
  return std::expm1(std::clamp(logp - behavior_logp, -kMaxLogRatio, kMaxLogRatio));
}

}  // namespace

ImprovementCertificate improvement_certificate(const CertificateSamples& samples) {
  check_shapes(samples);
  check_premises(samples);
  double gain = 0, total = 0, largest = 0;
  for_each_sequence(samples.lengths, [&](size_t s, size_t begin, size_t end) {
    double excess = 0;
    for (size_t i = begin; i < end; ++i) {
      excess += excess_ratio(samples.logp[i], samples.behavior_logp[i]);
      total += samples.divergences[i];
      largest = std::max(largest, samples.divergences[i]);
    }
    gain += samples.rewards[s] * excess;
  });
  const double sequences = std::max<double>(1, static_cast<double>(samples.lengths.size()));
  const double horizon = static_cast<double>(samples.horizon);
  ImprovementCertificate result;
  result.gain = gain / sequences;
  result.max_penalty = 2 * samples.xi * horizon * (horizon - 1) * largest * largest;
  result.average_penalty = 4 * samples.xi * total / sequences;
  result.certificate = result.gain - std::min(result.max_penalty, result.average_penalty);
  result.divergence = samples.divergence;
  return result;
}

}  // namespace keel
