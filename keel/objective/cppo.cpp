#include <ATen/ATen.h>

#include <cmath>

#include "keel/objective/sequence.h"
#include "keel/objective/sequences.h"

namespace keel {

TokenDecision Cppo::operator()(const TokenPolicy& p) const {
  const Sequences sequences(p);
  const Tensor divergence = binary_tv(p.logp, p.behavior_logp);
  const Tensor earlier = sequences.sum_before(at::ones_like(divergence));  // t - 1
  const Tensor steps =
      std::isfinite(horizon) ? at::full_like(divergence, horizon) : sequences.spread(sequences.counts());
  const Tensor weight = 1 - (1 - w_min) * earlier / (steps - 1).clamp_min(1);
  const Tensor allowed = std::isfinite(quantile)
                             ? sequences.spread(sequences.quantile(divergence, quantile).clamp(delta_b, delta_b_max))
                             : at::full_like(divergence, delta_b);
  const Tensor saved = sequences.sum_before(weight * (allowed - divergence));
  const Tensor threshold = (delta + saved).clamp_max(delta);
  const Tensor weighted = weight * divergence;
  return hard_mask(p, capped_ratio(p, ratio_cap), leads_away(p).logical_and(weighted > threshold), weighted, threshold);
}

}  // namespace keel
