#pragma once

#include "keel/core/json.h"
#include "keel/objective/regions/trust_region.h"
#include "keel/ops/lm_head.h"

namespace keel {

/// Sums over the tokens of a step, kept on the device and read once: what the trust region did, and how far pi is from
/// mu.
class TokenMetrics {
 public:
  /// Adds tokens of one chunk. `equal_parameters`: no update was made since they were sampled, so that |pi - mu| is the
  /// mismatch between sampler and trainer and not the policy's drift. `reference_kl`: each token's, where there is a
  /// reference.
  void add(const TokenStats& stats, const TokenPolicy& policy, const TokenDecision& decision, bool equal_parameters,
           const Tensor& reference_kl = {});

  /// Puts policy/*, trust_region/*, mismatch/* and ratio/* into the row.
  void write(Json& row) const;

 private:
  Tensor sums_, maxima_;  // float64, see the .cpp for the order
  bool has_reference_ = false;
};

}  // namespace keel
