#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "keel/core/reward_range.h"

namespace keel {

/// A float32 log-prob of a token, computed twice, differs by less.
inline constexpr double kFloatLogProbError = 1e-5;

/// What an update is judged by: S sequences sampled from mu, whose N tokens lie one after another, all of them valid.
struct CertificateSamples {
  std::span<const double> logp;           // [N] log pi of the sampled token, under the policy after the update
  std::span<const double> behavior_logp;  // [N] log mu
  std::span<const double> divergences;    // [N] total variation of mu and pi at each token's place
  std::span<const double> rewards;        // [S]
  std::span<const int64_t> lengths;       // [S]
  std::span<const int64_t> groups;        // [S] the prompt that each answers; empty: each answers one of its own
  RewardRange range;                      // of any response, not only of those sampled
  int64_t horizon = 0;                    // T: no response is longer
  std::string divergence;                 // which total variation: "binary_tv", "topk_tv", "full_tv", or "unnamed"
  double logp_error = 0;                  // what rounding may add to a difference of the two log-probs
};

/// A lower bound of J(pi) - J(mu) by DPPO's Theorem 3.2 (arXiv 2602.04879), estimated. Rewards shifted by a constant
/// change neither side of it, so that xi, there the largest |R|, is half the width of the rewards' range here.
struct ImprovementCertificate {
  double gain = 0;                 // L'_mu(pi): mean over sequences of (R - b) sum_t (r_t - 1), see below for b
  double max_penalty = 0;          // 2 xi T (T-1) max(tv)^2
  double average_penalty = 0;      // 4 xi times the mean over sequences of the sum of tv: a sum over t, not a mean
  double average_penalty_low = 0;  // the same from a total variation that is a lower bound of the true one
  double certificate = 0;          // gain - the smaller of the first two penalties
  double standard_error = 0;       // of the certificate, over groups; infinite where there are fewer than two
  bool improved = false;           // the certificate is above 0 by more than its error and that of rounding explain
  std::string divergence;          // the samples' word, so that the number is never read without it
};

/// The certificate from a batch of samples.
///   - b is the mean reward of the group's other sequences, which are independent of this one: the mean of the gain is
///     the same and its variance smaller. Of a group of one it is the middle of the range.
///   - "binary_tv" and "topk_tv" are lower bounds of the true total variation. The average penalty does not take them:
///     the total variation is the expectation of |r - 1|/2 under mu (eq. 11), so that the mean of |r - 1|/2 has no
///     bias. "full_tv", and what the caller did not name, is taken for the true one.
///   - Sequences of one group share their prompt; groups are the independent samples that the standard error counts.
///   - Improved means: above two standard errors, where there are many groups; above as much of Student's distribution
///     where there are few; never with fewer than three.
/// What it is not:
///   - proof: expectations are means over the batch and max(tv) is over the places visited, not over all; with a lower
///     bound of the total variation the largest one is a lower estimate, for which the standard error does not account;
///   - enforced: a trust region masks sampled tokens after the fact and nothing holds the largest divergence below its
///     threshold; the theorem motivates the method, this number says what one update did.
/// The average penalty is at least twice |L'| in expectation, and its estimate at least as large as that of the gain
/// but for "full_tv": a certificate above 0 comes from the max penalty.
/// Nothing sampled: all numbers are 0.
ImprovementCertificate improvement_certificate(const CertificateSamples& samples);

}  // namespace keel
