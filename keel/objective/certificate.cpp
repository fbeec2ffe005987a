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
    fail(ExitCode::kInternal, "improvement certificate: the sequences have ", tokens, " tokens, but there are ",
         samples.logp.size(), " log-probs, ", samples.behavior_logp.size(), " behavior log-probs, ",
         samples.divergences.size(), " divergences; ", samples.lengths.size(), " sequences have ",
         samples.rewards.size(), " rewards and ", samples.groups.size(), " groups");
}

void check_assumptions(const CertificateSamples& samples) {
  constexpr std::array kKnown{"binary_tv", "topk_tv", "full_tv", "unnamed"};
  if (std::ranges::find(kKnown, samples.divergence) == kKnown.end())
    fail(ExitCode::kInternal, "improvement certificate: the divergence is \"", samples.divergence,
         "\"; known: binary_tv, topk_tv, full_tv, unnamed");
  for (const int64_t length : samples.lengths)
    if (length < 0 || length > samples.horizon)
      fail(ExitCode::kInternal, "improvement certificate: a sequence has ", length, " tokens, but the horizon is ",
           samples.horizon);
  for (const double reward : samples.rewards)
    if (!(reward >= samples.range.lowest && reward <= samples.range.highest))
      fail(ExitCode::kInternal, "improvement certificate: a reward is ", reward, ", but the range is ",
           samples.range.lowest, " to ", samples.range.highest);
  for (const double divergence : samples.divergences)
    if (!(divergence >= 0)) fail(ExitCode::kInternal, "improvement certificate: a total variation is ", divergence);
}

/// pi / mu - 1; expm1 keeps precision near 0.
double ratio_minus_one(double logp, double behavior_logp) {
  return std::expm1(std::clamp(logp - behavior_logp, -kMaxLogRatio, kMaxLogRatio));
}

struct SequenceSums {
  double ratio_minus_one = 0;  // r - 1
  double distance = 0;         // |r - 1|/2
  double divergence = 0;       // the total variation from the samples
  double ratio = 0;            // r
};

std::vector<SequenceSums> sum_tokens(const CertificateSamples& samples) {
  std::vector<SequenceSums> result(samples.lengths.size());
  for_each_sequence(samples.lengths, [&](size_t s, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const double difference = ratio_minus_one(samples.logp[i], samples.behavior_logp[i]);
      result[s].ratio_minus_one += difference;
      result[s].distance += std::abs(difference) / 2;
      result[s].divergence += samples.divergences[i];
      result[s].ratio += 1 + difference;
    }
  });
  return result;
}

std::vector<std::vector<size_t>> group_sequences(const CertificateSamples& samples) {
  std::map<int64_t, std::vector<size_t>> members;
  for (size_t s = 0; s < samples.lengths.size(); ++s)
    members[samples.groups.empty() ? static_cast<int64_t>(s) : samples.groups[s]].push_back(s);
  std::vector<std::vector<size_t>> result;
  for (auto& [group, sequences] : members) result.push_back(std::move(sequences));
  return result;
}

std::vector<double> subtract_baseline(const CertificateSamples& samples,
                                      const std::vector<std::vector<size_t>>& groups) {
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

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / std::max<double>(1, static_cast<double>(values.size()));
}

/// The standard error of the mean of `values`, clustered by group; group sizes can differ.
double clustered_standard_error(const std::vector<double>& values, const std::vector<std::vector<size_t>>& groups) {
  if (groups.size() < 2) return values.empty() ? 0 : std::numeric_limits<double>::infinity();
  const double center = mean(values), count = static_cast<double>(groups.size());
  double squares = 0;
  for (const std::vector<size_t>& group : groups) {
    double deviation = 0;
    for (const size_t s : group) deviation += values[s] - center;
    squares += deviation * deviation;
  }
  return std::sqrt(squares * count / (count - 1)) / static_cast<double>(values.size());
}

/// The quantile of Student's t distribution for this number of groups with the tail probability of two standard errors
/// of a normal distribution. The Cornish-Fisher expansion at 2 is accurate from three groups on.
constexpr size_t kMinGroups = 3;
double student_quantile(size_t groups) {
  const double n = static_cast<double>(groups) - 1;
  return 2 + 2.5 / n + 3.0625 / (n * n) + 2.859375 / (n * n * n);
}

}  // namespace

ImprovementCertificate improvement_certificate(const CertificateSamples& samples) {
  check_shapes(samples);
  check_assumptions(samples);
  const std::vector<SequenceSums> sums = sum_tokens(samples);
  const std::vector<std::vector<size_t>> groups = group_sequences(samples);
  const std::vector<double> rewards = subtract_baseline(samples, groups);
  const bool lower_bound = samples.divergence == "binary_tv" || samples.divergence == "topk_tv";
  const double xi = samples.range.half_width(), horizon = static_cast<double>(samples.horizon);
  const double max_divergence =
      samples.divergences.empty() ? 0 : *std::max_element(samples.divergences.begin(), samples.divergences.end());

  std::vector<double> gains, penalties, low_penalties, roundings;
  for (size_t s = 0; s < sums.size(); ++s) {
    gains.push_back(rewards[s] * sums[s].ratio_minus_one);
    penalties.push_back(4 * xi * (lower_bound ? sums[s].distance : sums[s].divergence));
    low_penalties.push_back(4 * xi * sums[s].divergence);
    roundings.push_back(std::abs(rewards[s]) * sums[s].ratio * samples.logp_error);
  }
  ImprovementCertificate result;
  result.divergence = samples.divergence;
  result.gain = mean(gains);
  result.max_penalty = 2 * xi * horizon * (horizon - 1) * max_divergence * max_divergence;
  result.average_penalty = mean(penalties);
  result.average_penalty_low = mean(low_penalties);
  result.certificate = result.gain - std::min(result.max_penalty, result.average_penalty);
  std::vector<double> terms = gains;  // the certificate is their mean, minus the max penalty if that is smaller
  for (size_t s = 0; s < sums.size(); ++s)
    if (result.average_penalty < result.max_penalty) terms[s] -= penalties[s];
  result.standard_error = clustered_standard_error(terms, groups);
  result.improved = groups.size() >= kMinGroups &&
                    result.certificate > student_quantile(groups.size()) * result.standard_error + mean(roundings);
  return result;
}

}  // namespace keel
