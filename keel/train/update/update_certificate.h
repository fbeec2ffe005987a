#pragma once

#include <optional>

#include "keel/core/requirements.h"
#include "keel/model/network/causal_lm.h"
#include "keel/objective/certificate.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {

/// What the improvement certificate is computed under.
struct CertificateOptions {
  double temperature = 1;
  int64_t tokens_per_batch = 0;
  std::optional<RewardRange> range = {};  // that a completion's reward can be in; nothing: that of the step's
  int64_t horizon = 0;                    // no completion is longer
};

/// The certificate of a step: one pass without gradients over its rollouts with the weights after its last update. The
/// total variation is the best that the rollouts' records allow: exact where the method had hidden states recorded,
/// over the top K where it had those, else binary. Nothing without rollouts, or when a
/// number is not finite: the health guards speak about that.
std::optional<ImprovementCertificate> compute_certificate(const CausalLm& updated, const ScoredRollouts& scored,
                                                     const Requirements& needs, const CertificateOptions& terms);

}  // namespace keel
