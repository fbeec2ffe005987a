#include <ATen/ATen.h>

#include "keel/objective/divergence.h"
#include "keel/objective/methods.h"

namespace keel {

TokenDecision PolicyGradient::operator()(const TokenPolicy& p) const {
  const Tensor never = at::zeros_like(p.advantages, p.advantages.options().dtype(at::kBool));
  return hard_mask(p, never, ratio_cap, binary_tv(p.logp, p.behavior_logp), at::full_like(p.advantages, kUnlimited));
}

std::vector<Method> policy_gradient_rows() {
  return {{.name = "pg_is",
           .sentence = "Importance-weighted policy gradient without a trust region.",
           .equation = "g = r A, r = pi/mu; nothing is blocked",
           .source = "arXiv 2602.04879, appendix C.1",
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = PolicyGradient{}}};
}

}  // namespace keel
