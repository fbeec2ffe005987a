#include <ATen/ATen.h>

#include "keel/objective/divergence.h"
#include "keel/objective/methods.h"

namespace keel {
namespace {

TokenDecision dppo(const TokenPolicy& p, const Tensor& divergence, double low, double high, double ratio_cap) {
  const Tensor threshold = by_sign(p.advantages, high, low);
  const Tensor leads_away = p.advantages * (p.logp - p.behavior_logp) > 0;
  return hard_mask(p, leads_away.logical_and(divergence > threshold), ratio_cap, divergence, threshold);
}

}  // namespace

TokenDecision DppoBinaryTv::operator()(const TokenPolicy& p) const {
  return dppo(p, binary_tv(p.logp, p.behavior_logp), low, high, ratio_cap);
}

TokenDecision DppoBinaryKl::operator()(const TokenPolicy& p) const {
  return dppo(p, binary_kl(p.logp, p.behavior_logp), low, high, ratio_cap);
}

std::vector<Method> dppo_rows() {
  const std::string source = "arXiv 2602.04879, eq. 12 to 14";
  return {{.name = "dppo_tv",
           .sentence = "A mask on the total variation to the sampling policy, estimated from the sampled token.",
           .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and |pi - mu| > high (A > 0) or low (A < 0)",
           .source = source,
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = DppoBinaryTv{}},
          {.name = "dppo_kl",
           .sentence = "A mask on the KL divergence to the sampling policy, estimated from the sampled token.",
           .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and KL(mu||pi) > high (A > 0) or low (A < 0)",
           .source = source,
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = DppoBinaryKl{}}};
}

}  // namespace keel
