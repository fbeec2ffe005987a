#include "keel/objective/regions/soft.h"

#include <ATen/ATen.h>

#include <cmath>

namespace keel {

TokenDecision Sapo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p, anchor);
  const Tensor x = by_sign(p.advantages, tau_positive, tau_negative) * (ratio - 1);
  return no_mask(p, {4 * ratio * p.advantages * x.sigmoid() * (-x).sigmoid(), clamps}, (ratio - 1).abs(), kUnlimited);
}

TokenDecision Dgpo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p);
  const Tensor outside = is_clipped(p.advantages, ratio, low, high);
  const Tensor above = ratio.pow(1 - 1 / m) * std::pow(1 + high, 1 / m);
  const Tensor below = ratio * (ratio / (1 - low)).pow(n);  // a single power, since two could give 0/0 for large n
  const Tensor weight = at::where(outside, at::where(p.advantages > 0, above, below), ratio);
  TokenDecision decision = no_mask(p, {weight * p.advantages, clamps}, (ratio - 1).abs(), kUnlimited, outside);
  decision.threshold = by_sign(p.advantages, high, low);
  return decision;
}

TokenDecision Maspo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p);
  const Tensor scaled = beta * p.advantages;
  const Tensor width_from_mu = (sigma * (-alpha * p.behavior_logp).exp()).clamp(sigma, sigma_high);
  const Tensor width_factor = at::where(scaled > 0, 1 + scaled, (1 + scaled.abs()).reciprocal());
  const Tensor width = width_from_mu * width_factor.clamp(factor_low, factor_high);
  const Tensor decay = (-((ratio - 1) / width).square() / 2).exp();
  const Tensor weight = at::where(moves_away(p), ratio * decay, ratio);
  TokenDecision decision = no_mask(p, {weight * p.advantages, clamps}, (ratio - 1).abs(), kUnlimited);
  decision.threshold = width;
  return decision;
}

std::vector<MethodRow<SoftFamily>> soft_rows() {
  return {{.name = "sapo",
           .summary = "A weight that decays smoothly on both sides of the ratio 1.",
           .equation = "g = 4 r A sigmoid(x) sigmoid(-x), x = tau (r - 1), tau by the sign of A; nothing is blocked",
           .source = "arXiv 2511.20347",
           .advantage = "grpo",
           .aggregation = "seq_mean_token_mean",
           .region = Sapo{}},
          {.name = "dgpo",
           .summary = "The ratio clip, but with a power-law decay instead of blocking.",
           .equation =
               "g = r A in the band, r^(n+1)/(1 - low)^n A below (A < 0), r^(1-1/m)(1 + high)^(1/m) A above (A > 0)",
           .source = "arXiv 2603.14389, the authors' release",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Dgpo{}},
          {.name = "maspo",
           .summary = "A Gaussian weight on the ratio, wider for rare tokens, for updates that move away from mu.",
           .equation = "g = r A exp(-(r - 1)^2/(2 w^2)) where A (pi - mu) > 0, else r A; w from mu and A",
           .source = "MASPO, the authors' release",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Maspo{}}};
}

}  // namespace keel
