#include "keel/objective/regions/trust_region.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"

namespace keel {
namespace {

void check_inputs(const Requirements& needs, const LossInputs& p) {
  const auto require = [](bool needed, const Tensor& given, const char* name) {
    if (needed && !given.defined()) fail(ExitCode::kInternal, "the trust region needs ", name, ", which is not given");
  };
  require(needs.recomputed_logp, p.old_logp, "old_logp");
  require(needs.top_k > 0, p.topk_behavior_logp, "topk_behavior_logp");
  require(needs.top_k > 0, p.topk_logp, "topk_logp");
  require(needs.top_k > 0, p.sampled_in_topk, "sampled_in_topk");
  require(needs.hidden_states, p.divergence, "divergence");
}

/// The policy with 0 in every number that the mask hides: whatever stood there, arithmetic on it stays finite.
LossInputs without_hidden(LossInputs p) {
  const Tensor hidden = p.mask.logical_not();
  for (const auto column : kTokenColumns)
    if (Tensor& x = p.*column; x.defined() && x.is_floating_point())
      x = x.masked_fill(x.dim() == 1 ? hidden : hidden.unsqueeze(1), 0);
  return p;
}

/// A hidden token is not decided about.
void undecide_hidden(TokenDecision& decision, const Tensor& mask) {
  const Tensor hidden = mask.logical_not();
  decision.coefficient = decision.coefficient.masked_fill(hidden, 0);
  decision.divergence = decision.divergence.masked_fill(hidden, 0);
  decision.keep = decision.keep.logical_or(hidden);
  decision.outside = decision.outside.logical_and(mask);
}

}  // namespace

Requirements requirements(const TrustRegion& region) {
  return std::visit([](const auto& r) { return r.requirements(); }, region);
}

RegionProperties properties(const TrustRegion& region) {
  return std::visit(
      [](const auto& r) -> RegionProperties {
        if constexpr (requires { r.properties(); })
          return r.properties();
        else
          return {};
      },
      region);
}

TokenDecision token_coefficients(const TrustRegion& region, const LossInputs& policy) {
  const at::NoGradGuard no_grad;  // a coefficient scales the gradient and never carries one
  check_inputs(requirements(region), policy);
  const bool masked = policy.mask.defined();
  const LossInputs seen = masked ? without_hidden(policy) : policy;
  TokenDecision decision = std::visit([&](const auto& r) { return r(seen); }, region);
  decision.coefficient = decision.coefficient.detach();  // it may be an input, handed through
  decision.divergence = decision.divergence.detach();
  if (!decision.outside.defined()) decision.outside = decision.keep.logical_not();
  if (masked) undecide_hidden(decision, policy.mask);
  return decision;
}

}  // namespace keel
