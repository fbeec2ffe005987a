#include "keel/objective/regions/cppo.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/objective/regions/sequence_reducer.h"

namespace keel {

TokenDecision Cppo::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  const Tensor divergence = binary_tv(p.logp, p.behavior_logp);
  const Tensor earlier = sequences.exclusive_cumsum(at::ones_like(divergence));  // t - 1
  const Tensor steps =
      std::isfinite(horizon) ? at::full_like(divergence, horizon) : sequences.broadcast(sequences.counts());
  const Tensor weight = 1 - (1 - w_min) * earlier / (steps - 1).clamp_min(1);
  const Tensor token_budget =
      std::isfinite(quantile)
          ? sequences.broadcast(sequences.quantile(divergence, quantile).clamp(delta_b, delta_b_max))
          : at::full_like(divergence, delta_b);
  const Tensor unspent = sequences.exclusive_cumsum(weight * (token_budget - divergence));
  const Tensor threshold = (delta + unspent).clamp_max(delta);
  const Tensor weighted = weight * divergence;
  return hard_mask(p, capped_ratio(p, ratio_cap), moves_away(p).logical_and(weighted > threshold), weighted, threshold);
}

bool Cppo::has_negative_weight(double valid_tokens) const {
  constexpr double kRounding = 1e-6;  // a rounded weight of 0 is not negative
  return std::isfinite(horizon) && (1 - w_min) * (valid_tokens - 1) > std::max(horizon - 1, 1.0) * (1 + kRounding);
}

std::optional<InvalidParameter> Cppo::check_length(double valid_tokens) const {
  if (!has_negative_weight(valid_tokens)) return {};
  return invalid_parameter("horizon", "horizon is ", horizon, ", too short for ", valid_tokens,
                           " tokens: their weights would be negative; expected a horizon of at least ", valid_tokens,
                           ", or null (None) for the length of each sequence");
}

std::vector<MethodRow<CppoFamily>> cppo_rows() {
  return {{.name = "cppo",
           .summary = "DPPO mask with a divergence budget per sequence: divergence in the prefix lowers the threshold "
                      "of later tokens.",
           .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and w_t |pi - mu| > c_t",
           .source = "arXiv 2606.10968",
           .advantage = "group_mean",
           .aggregation = "token_mean",
           .region = Cppo{}}};
}

}  // namespace keel
