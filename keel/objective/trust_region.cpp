#include "keel/objective/trust_region.h"

#include <ATen/ATen.h>

#include "keel/objective/divergence.h"

namespace keel {

TokenDecision token_coefficients(const TrustRegion& region, const TokenPolicy& policy) {
  const at::NoGradGuard no_grad;  // a coefficient scales the gradient and never carries one
  return std::visit([&](const auto& r) { return r(policy); }, region);
}

TokenDecision hard_mask(const TokenPolicy& p, const Tensor& blocked, double ratio_cap, const Tensor& divergence,
                        const Tensor& threshold) {
  const Tensor ratio = probability_ratio(p.logp, p.behavior_logp).clamp_max(ratio_cap);
  return {(ratio * p.advantages).masked_fill(blocked, 0), blocked.logical_not(), divergence, threshold};
}

Tensor by_sign(const Tensor& advantages, double positive, double otherwise) {
  return at::where(advantages > 0, at::full_like(advantages, positive), at::full_like(advantages, otherwise));
}

}  // namespace keel
