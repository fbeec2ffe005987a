#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace keel {

/// What an update is judged by: S sequences sampled from mu, whose N tokens lie one after another, all of them valid.
struct CertificateSamples {
  std::span<const double> logp;           // [N] log pi of the sampled token, under the policy after the update
  std::span<const double> behavior_logp;  // [N] log mu
  std::span<const double> divergences;    // [N] total variation of mu and pi at each token's place
  std::span<const double> rewards;        // [S]
  std::span<const int64_t> lengths;       // [S]
  double xi = 0;                          // largest |reward| that any response can get; not below those sampled
  int64_t horizon = 0;                    // T: no response is longer
  std::string divergence;                 // which total variation: "binary_tv", "topk_tv", "full_tv", or "unnamed"
};

/// A lower bound of J(pi) - J(mu) by DPPO's Theorem 3.2 (arXiv 2602.04879), estimated.
struct ImprovementCertificate {
  double gain = 0;             // L'_mu(pi): mean over sequences of R sum_t (r_t - 1)
  double max_penalty = 0;      // 2 xi T (T-1) max(tv)^2
  double average_penalty = 0;  // 4 xi times the mean over sequences of the sum of tv: a sum over t, not a mean
  double certificate = 0;      // gain - the smaller penalty; above 0: the update improved the policy, with the caveats
  std::string divergence;      // the samples' word, so that the number is never read without it
};

/// The certificate from a batch of samples. What it is not:
///   - proof: expectations are means over the batch and max(tv) is over the places visited, not over all;
///   - safe with every divergence: "binary_tv" and "topk_tv" are lower bounds of the true one, so that penalties come
///     out too small and the certificate is optimistic; "full_tv" alone is what the theorem names;
///   - enforced: a trust region masks sampled tokens after the fact and nothing holds the largest divergence below its
///     threshold; the theorem motivates the method, this number says what one update did.
/// Nothing sampled: all numbers are 0.
ImprovementCertificate improvement_certificate(const CertificateSamples& samples);

}  // namespace keel
