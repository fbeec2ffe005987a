#include "keel/objective/regions/trust_region.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"

namespace keel {
namespace {

void check_inputs(const Requirements& needs, const LossInputs& p) {
  const auto require = [](bool needed, const Tensor& given, const char* name) {
    if (needed && !given.defined()) fail(ExitCode::kInternal, "the trust region needs ", name, ", which is missing");
  };
  require(needs.recomputed_logp, p.old_logp, "old_logp");
  require(needs.top_k > 0, p.topk_behavior_logp, "topk_behavior_logp");
  require(needs.top_k > 0, p.topk_logp, "topk_logp");
  require(needs.top_k > 0, p.sampled_in_topk, "sampled_in_topk");
  require(needs.hidden_states, p.divergence, "divergence");
}

/// Returns the inputs with 0 in all masked tokens, so that NaN or infinity there cannot spread.
LossInputs zero_masked(LossInputs p) {
  const Tensor masked = p.mask.logical_not();
  for (const auto column : kLossTensors)
    if (Tensor& x = p.*column; x.defined() && x.is_floating_point())
      x = x.masked_fill(x.dim() == 1 ? masked : masked.unsqueeze(1), 0);
  return p;
}

/// Resets the decision of masked tokens: kept, inside, with coefficient and divergence 0.
void reset_masked(TokenDecision& decision, const Tensor& mask) {
  const Tensor masked = mask.logical_not();
  decision.coefficient = decision.coefficient.masked_fill(masked, 0);
  decision.divergence = decision.divergence.masked_fill(masked, 0);
  decision.keep = decision.keep.logical_or(masked);
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

TokenDecision token_coefficients(const TrustRegion& region, const LossInputs& inputs) {
  const at::NoGradGuard no_grad;  // coefficients are constants for autograd
  check_inputs(requirements(region), inputs);
  const bool has_mask = inputs.mask.defined();
  const LossInputs sanitised = has_mask ? zero_masked(inputs) : inputs;
  TokenDecision decision = std::visit([&](const auto& r) { return r(sanitised); }, region);
  decision.coefficient = decision.coefficient.detach();  // it may alias an input tensor
  decision.divergence = decision.divergence.detach();
  if (!decision.outside.defined()) decision.outside = decision.keep.logical_not();
  if (has_mask) reset_masked(decision, inputs.mask);
  return decision;
}

}  // namespace keel
