#pragma once

#include <optional>

#include "keel/core/requirements.h"
#include "keel/model/network/causal_lm.h"
#include "keel/objective/certificate.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {

/// Options of the improvement certificate.
struct CertificateOptions {
  double temperature = 1;
  int64_t tokens_per_batch = 0;
  std::optional<RewardRange> range = {};  // of possible rewards; none: the range of the step's rewards
  int64_t horizon = 0;                    // maximum completion length
};

/// Computes a step's certificate with one forward pass over its rollouts with the `updated` weights. The total
/// variation is exact if hidden states were recorded, over the top K if those were recorded, else binary. Returns none
/// without rollouts, and for NaN or infinite log-probs, which the health guards report.
std::optional<ImprovementCertificate> compute_certificate(const CausalLm& updated, const ScoredRollouts& scored,
                                                          const Requirements& needs, const CertificateOptions& options);

}  // namespace keel
