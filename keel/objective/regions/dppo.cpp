#include "keel/objective/regions/dppo.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

/// Adds the gradient of the regulariser -tau (log r)^2, also for blocked tokens.
TokenDecision add_log_ratio_penalty(TokenDecision decision, const LossInputs& p, double tau) {
  decision.coefficient = decision.coefficient - 2 * tau * (p.logp - p.behavior_logp);
  return decision;
}

MethodRow<DppoFamily> dppo_row(const std::string& name, const std::string& summary, const std::string& measure,
                               const Dppo& region) {
  return {
      .name = name,
      .summary = summary,
      .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and " + measure + " > high (A > 0) or low (A < 0)",
      .source = "arXiv 2602.04879, eq. 12 to 16",
      .advantage = "group_mean",
      .aggregation = "seq_mean_token_sum_norm",
      .region = region};
}

}  // namespace

TokenDecision Dppo::operator()(const LossInputs& p) const {
  const auto [measured, measured_clamps] = token_divergence(p, divergence, anchor, support);
  const auto [weight, weight_clamps] = capped_ratio(p, ratio_cap);
  const Tensor threshold = by_sign(p.advantages, high, low);
  const Tensor blocked = moves_away(p, anchor).logical_and(measured > threshold);
  return hard_mask(p, {weight, weight_clamps + measured_clamps}, blocked, measured, threshold);
}

TokenDecision MinimalMask::operator()(const LossInputs& p) const {
  const Tensor difference = probability_difference(p.logp, anchor_logp(p, anchor));
  const Tensor blocked = (p.advantages < 0).logical_and(-difference >= delta);
  return hard_mask(p, capped_ratio(p, ratio_cap), blocked, difference.abs(), by_sign(p.advantages, kUnlimited, delta));
}

TokenDecision Ipo::operator()(const LossInputs& p) const {
  const Tensor distance = binary_tv(p.logp, p.behavior_logp);
  return add_log_ratio_penalty(
      hard_mask(p, capped_ratio(p, ratio_cap), distance > threshold, distance, at::full_like(distance, threshold)), p,
      tau);
}

TokenDecision PrimeRlDefault::operator()(const LossInputs& p) const {
  return add_log_ratio_penalty(Dppo{.low = low, .high = high, .ratio_cap = kUnlimited}(p), p, tau);
}

std::vector<MethodRow<DppoFamily>> dppo_rows() {
  const auto total_variation = [](Divergence divergence) { return Dppo{.divergence = divergence}; };
  const auto kl = [](Divergence divergence) { return Dppo{.low = 0.05, .high = 0.05, .divergence = divergence}; };
  return {
      dppo_row("dppo_tv", "A mask on the total variation to the sampling policy, estimated from the sampled token.",
               "|pi - mu|", total_variation(Divergence::kBinaryTv)),
      dppo_row("dppo_kl", "A mask on the KL divergence to the sampling policy, estimated from the sampled token.",
               "KL(mu||pi)", kl(Divergence::kBinaryKl)),
      dppo_row("dppo_topk_tv", "A mask on the total variation over the sampler's most likely tokens.",
               "TV over TopK(mu), the sampled token and the rest", total_variation(Divergence::kTopKTv)),
      dppo_row("dppo_topk_kl", "A mask on the KL divergence over the sampler's most likely tokens.",
               "KL(mu||pi) over TopK(mu), the sampled token and the rest", kl(Divergence::kTopKKl)),
      dppo_row("dppo_full_tv", "A mask on the exact total variation to the sampling policy.", "TV over the vocabulary",
               total_variation(Divergence::kFullTv)),
      dppo_row("dppo_full_kl", "A mask on the exact KL divergence to the sampling policy.",
               "KL(mu||pi) over the vocabulary", kl(Divergence::kFullKl)),
      {.name = "minimal_mask",
       .summary = "Blocks only negative updates of tokens that have already lost much probability.",
       .equation = "g = min(r, ratio_cap) A; blocked: A < 0 and mu - pi >= delta",
       .source = "arXiv 2602.04879, section 5.3",
       .advantage = "group_mean",
       .aggregation = "seq_mean_token_sum_norm",
       .region = MinimalMask{}},
      {.name = "ipo",
       .summary = "Blocks tokens far from the sampling policy; a quadratic penalty pulls all tokens back to it.",
       .equation = "g = M min(r, ratio_cap) A - 2 tau log r; blocked (M = 0): |pi - mu| > threshold",
       .source = "prime-rl",
       .advantage = "group_mean",
       .aggregation = "token_mean",
       .region = Ipo{}},
      {.name = "prime_rl_2026_09",
       .summary =
           "Blocks tokens far from the sampling policy in either direction; the default of prime-rl since 2026-09.",
       .equation = "g = M min(r, ratio_cap) A - 2 tau log r; blocked (M = 0): |pi - mu| > threshold",
       .source = "prime-rl",
       .advantage = "group_mean",
       .aggregation = "token_mean",
       .region = Ipo{.threshold = 0.3, .tau = 0, .ratio_cap = 1e4}},
      {.name = "prime_rl_default",
       .summary =
           "DPPO mask on the total variation, plus a quadratic penalty that pulls tokens back to the sampling policy.",
       .equation = "g = M r A - 2 tau log r; blocked (M = 0): A (pi - mu) > 0 and |pi - mu| > high (A > 0) or low",
       .source = "prime-rl",
       .advantage = "group_mean",
       .aggregation = "token_mean",
       .region = PrimeRlDefault{}}};
}

}  // namespace keel
