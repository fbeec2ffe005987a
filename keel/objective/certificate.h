#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "keel/core/reward_range.h"

namespace keel {

/// Bound of the difference between two float32 computations of one log-prob.
inline constexpr double kFloatLogProbError = 1e-5;

/// Samples of a policy update: S sequences from mu with N tokens in all, concatenated; all tokens are valid.
struct CertificateSamples {
  std::span<const double> logp;           // [N] log pi of the sampled token, under the policy after the update
  std::span<const double> behavior_logp;  // [N] log mu
  std::span<const double> divergences;    // [N] total variation between mu and pi at each token
  std::span<const double> rewards;        // [S]
  std::span<const int64_t> lengths;       // [S]
  std::span<const int64_t> groups;        // [S] prompt of each sequence; empty: each has its own
  RewardRange range;                      // of all possible responses, not only the sampled ones
  int64_t horizon = 0;                    // T: maximum response length
  std::string divergence;                 // kind of total variation: "binary_tv", "topk_tv", "full_tv" or "unnamed"
  double logp_error = 0;                  // rounding error of the difference of the two log-probs
};

/// Estimate of the lower bound of J(pi) - J(mu) in Theorem 3.2 of DPPO (arXiv 2602.04879). A constant shift of the
/// rewards changes neither side, so xi (the maximum |R| in the paper) is half the width of the reward range here.
struct ImprovementCertificate {
  double gain = 0;                 // L'_mu(pi): mean over sequences of (R - b) sum_t (r_t - 1); b is defined below
  double max_penalty = 0;          // 2 xi T (T-1) max(tv)^2
  double average_penalty = 0;      // 4 xi times the mean over sequences of sum_t tv (a sum over t, not a mean)
  double average_penalty_low = 0;  // average_penalty computed from `divergences`, which can be a lower bound
  double certificate = 0;          // gain - min(max_penalty, average_penalty)
  double standard_error = 0;       // of the certificate, over groups; infinite for fewer than two groups
  bool improved = false;           // the certificate is positive beyond sampling and rounding error
  std::string divergence;          // copied from the samples, so that reports can name it
};

/// Computes the certificate of a batch of samples.
///   - b is the mean reward of the other sequences of the group. They are independent of this one, so b reduces the
///     variance of the gain without bias. In a group of one, b is the middle of the reward range.
///   - "binary_tv" and "topk_tv" are lower bounds of the true total variation. For them the average penalty uses
///     |r - 1|/2, whose expectation under mu is the total variation (eq. 11). "full_tv" and "unnamed" count as the true
///     total variation.
///   - Sequences of one group share a prompt. The standard error treats groups as the independent samples.
///   - `improved` requires two standard errors, or for few groups the equivalent quantile of Student's t distribution.
///     It is false for fewer than three groups.
/// Limits:
///   - It is not a proof: expectations are batch means, and max(tv) is over the sampled tokens only. A lower bound of
///     the total variation underestimates max(tv), which the standard error does not include.
///   - It is not enforced: a trust region masks sampled tokens and does not bound the maximum divergence.
///   - The average penalty is at least twice |L'| in expectation, and except for "full_tv" its estimate is at least as
///     large as that of the gain. A positive certificate therefore comes from the max penalty.
/// Without samples all numbers are 0.
ImprovementCertificate improvement_certificate(const CertificateSamples& samples);

}  // namespace keel
