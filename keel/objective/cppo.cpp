#include <ATen/ATen.h>

#include <cmath>

#include "keel/objective/sequence.h"
#include "keel/objective/sequences.h"

namespace keel {
namespace {

/// The quantile of each row's valid entries, with linear interpolation; 0 for a row without any. [S].
Tensor row_quantiles(const Sequences& sequences, const Tensor& rows, double quantile) {
  const Tensor sorted = std::get<0>(rows.masked_fill(sequences.valid().logical_not(), kUnlimited).sort(1));
  const Tensor position = quantile * (sequences.counts() - 1).clamp_min(0);
  const auto at_place = [&](const Tensor& place) {
    return sorted.gather(1, place.to(at::kLong).unsqueeze(1)).squeeze(1);
  };
  const Tensor below = at_place(position.floor()), above = at_place(position.ceil());
  const Tensor result = below + (above - below) * (position - position.floor());
  return at::where(sequences.counts() > 0, result, at::zeros_like(result));
}

}  // namespace

TokenDecision Cppo::operator()(const TokenPolicy& p) const {
  const Sequences sequences(p);
  const Tensor divergence = binary_tv(p.logp, p.behavior_logp);
  if (divergence.numel() == 0) return hard_mask(p, ratio_of(p), none(p), divergence, divergence);
  const Tensor d = sequences.rows(divergence);
  const Tensor valid = sequences.valid().to(d.scalar_type());
  const Tensor earlier = valid.cumsum(1) - valid;  // t - 1: valid tokens before this one
  const Tensor steps = std::isfinite(horizon) ? at::full_like(sequences.counts(), horizon) : sequences.counts();
  const Tensor weight = 1 - (1 - w_min) * earlier / (steps - 1).clamp_min(1).unsqueeze(1);
  Tensor allowed = at::full_like(sequences.counts(), delta_b);
  if (std::isfinite(quantile)) allowed = row_quantiles(sequences, d, quantile).clamp(delta_b, delta_b_max);
  const Tensor saved = weight * (allowed.unsqueeze(1) - d) * valid;
  const Tensor threshold = sequences.tokens((delta + saved.cumsum(1) - saved).clamp_max(delta));
  const Tensor weighted = sequences.tokens(weight) * divergence;
  return hard_mask(p, capped_ratio(p, ratio_cap), leads_away(p).logical_and(weighted > threshold), weighted, threshold);
}

}  // namespace keel
