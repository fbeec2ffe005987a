#include "keel/objective/certificate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "keel/core/error.h"
#include "keel/objective/aggregation.h"
#include "keel/objective/regions/divergence.h"

namespace keel {
namespace {

void check_shapes(const CertificateSamples& samples) {
  int64_t tokens = 0;
  for (const int64_t length : samples.lengths) tokens += length;
  if (tokens != std::ssize(samples.logp) || samples.logp.size() != samples.behavior_logp.size() ||
      samples.logp.size() != samples.divergences.size() || samples.rewards.size() != samples.lengths.size() ||
      (!samples.groups.empty() && samples.groups.size() != samples.lengths.size()))
    fail(ExitCode::kInternal, "a certificate from sequences of ", tokens, " tokens got ", samples.logp.size(),
         " log-probs, ", samples.behavior_logp.size(), " behavior log-probs, ", samples.divergences.size(),
         " divergences and, for ", samples.lengths.size(), " sequences, ", samples.rewards.size(), " rewards and ",
         samples.groups.size(), " groups");
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
    if (!(reward >= samples.range.lowest && reward <= samples.range.highest))
      fail(ExitCode::kInternal, "a reward of ", reward, " under a certificate's range of ", samples.range.lowest,
           " to ", samples.range.highest);
  for (const double divergence : samples.divergences)
    if (!(divergence >= 0)) fail(ExitCode::kInternal, "a total variation of ", divergence, " in a certificate");
}

/// pi / mu - 1, by expm1: most tokens are near 0.
double excess_ratio(double logp, double behavior_logp) {
  return std::expm1(std::clamp(logp - behavior_logp, -kMaxLogRatio, kMaxLogRatio));
}

/// Sums over the tokens of a sequence.
struct SequenceSums {
  double excess = 0;      // r - 1
  double distance = 0;    // |r - 1|/2
  double divergence = 0;  // the total variation that was given
  double ratio = 0;       // r
};

std::vector<SequenceSums> sums_of(const CertificateSamples& samples) {
  std::vector<SequenceSums> result(samples.lengths.size());
  for_each_sequence(samples.lengths, [&](size_t s, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const double excess = excess_ratio(samples.logp[i], samples.behavior_logp[i]);
      result[s].excess += excess;
      result[s].distance += std::abs(excess) / 2;
      result[s].divergence += samples.divergences[i];
      result[s].ratio += 1 + excess;
    }
  });
  return result;
}

/// The sequences of each group.
std::vector<std::vector<size_t>> members_of(const CertificateSamples& samples) {
  std::map<int64_t, std::vector<size_t>> members;
  for (size_t s = 0; s < samples.lengths.size(); ++s)
    members[samples.groups.empty() ? static_cast<int64_t>(s) : samples.groups[s]].push_back(s);
  std::vector<std::vector<size_t>> result;
  for (auto& [group, sequences] : members) result.push_back(std::move(sequences));
  return result;
}

/// Each reward less its baseline.
std::vector<double> centred_rewards(const CertificateSamples& samples, const std::vector<std::vector<size_t>>& groups) {
  std::vector<double> result(samples.rewards.begin(), samples.rewards.end());
  for (const std::vector<size_t>& group : groups) {
    double sum = 0;
    for (const size_t s : group) sum += samples.rewards[s];
    const double others = static_cast<double>(group.size()) - 1;
    for (const size_t s : group)
      result[s] -= group.size() == 1 ? samples.range.middle() : (sum - samples.rewards[s]) / others;
  }
  return result;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / std::max<double>(1, static_cast<double>(values.size()));
}

/// Of the mean of `values`, whose groups are independent of one another; they need not be of one size.
double error_of_mean(const std::vector<double>& values, const std::vector<std::vector<size_t>>& groups) {
  if (groups.size() < 2) return values.empty() ? 0 : std::numeric_limits<double>::infinity();
  const double mean = mean_of(values), count = static_cast<double>(groups.size());
  double squares = 0;
  for (const std::vector<size_t>& group : groups) {
    double apart = 0;
    for (const size_t s : group) apart += values[s] - mean;
    squares += apart * apart;
  }
  return std::sqrt(squares * count / (count - 1)) / static_cast<double>(values.size());
}

/// How many standard errors leave as much beyond them, with the variance estimated from so many groups, as two do with
/// a known one: Student's quantile, by Cornish and Fisher's expansion at 2, which is good from three groups on.
constexpr size_t kLeastGroups = 3;
double multiple_of_error(size_t groups) {
  const double n = static_cast<double>(groups) - 1;
  return 2 + 2.5 / n + 3.0625 / (n * n) + 2.859375 / (n * n * n);
}

}  // namespace

ImprovementCertificate improvement_certificate(const CertificateSamples& samples) {
  check_shapes(samples);
  check_premises(samples);
  const std::vector<SequenceSums> sums = sums_of(samples);
  const std::vector<std::vector<size_t>> groups = members_of(samples);
  const std::vector<double> rewards = centred_rewards(samples, groups);
  const bool lower_bound = samples.divergence == "binary_tv" || samples.divergence == "topk_tv";
  const double xi = samples.range.half_width(), horizon = static_cast<double>(samples.horizon);
  const double largest =
      samples.divergences.empty() ? 0 : *std::max_element(samples.divergences.begin(), samples.divergences.end());

  std::vector<double> gains, penalties, low_penalties, roundings;
  for (size_t s = 0; s < sums.size(); ++s) {
    gains.push_back(rewards[s] * sums[s].excess);
    penalties.push_back(4 * xi * (lower_bound ? sums[s].distance : sums[s].divergence));
    low_penalties.push_back(4 * xi * sums[s].divergence);
    roundings.push_back(std::abs(rewards[s]) * sums[s].ratio * samples.logp_error);
  }
  ImprovementCertificate result;
  result.divergence = samples.divergence;
  result.gain = mean_of(gains);
  result.max_penalty = 2 * xi * horizon * (horizon - 1) * largest * largest;
  result.average_penalty = mean_of(penalties);
  result.average_penalty_low = mean_of(low_penalties);
  result.certificate = result.gain - std::min(result.max_penalty, result.average_penalty);
  std::vector<double> estimated = gains;  // what the certificate is a mean of; the max penalty is none
  for (size_t s = 0; s < sums.size(); ++s)
    if (result.average_penalty < result.max_penalty) estimated[s] -= penalties[s];
  result.standard_error = error_of_mean(estimated, groups);
  result.improved = groups.size() >= kLeastGroups &&
                    result.certificate > multiple_of_error(groups.size()) * result.standard_error + mean_of(roundings);
  return result;
}

}  // namespace keel
