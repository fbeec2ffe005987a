#include "keel/objective/regions/sequence_level.h"

#include <ATen/ATen.h>

#include "keel/objective/regions/sequence_reducer.h"

namespace keel {
namespace {

TokenDecision mask_above(const LossInputs& p, const Tensor& divergence, double delta) {
  return hard_mask(p, importance_ratio(p), divergence > delta, divergence, at::full_like(divergence, delta));
}

}  // namespace

TokenDecision Gspo::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  const auto [sequence_ratio, clamps] = clamped_exp(sequences.mean(p.logp - anchor_logp(p, anchor)));
  const Tensor s = sequences.broadcast(sequence_ratio);
  return hard_mask(p, {s, clamps}, is_clipped(p.advantages, s, low, high), (s - 1).abs(),
                   by_sign(p.advantages, high, low));
}

TokenDecision Gmpo::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  const Tensor log_ratio = p.logp - anchor_logp(p, anchor);
  const Tensor clipped = at::where(p.advantages > 0, log_ratio.clamp_max(high), log_ratio.clamp_min(-low));
  const auto [mean, clamps] = clamped_exp(sequences.mean(clipped));
  const Tensor blocked =
      at::where(p.advantages > 0, log_ratio > high, (p.advantages < 0).logical_and(log_ratio < -low));
  return hard_mask(p, {sequences.broadcast(mean), clamps}, blocked, log_ratio.abs(), by_sign(p.advantages, high, low));
}

TokenDecision Vespo::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  const Tensor sum = sequences.sum(p.logp - p.behavior_logp);
  const Tensor log_w = sequences.broadcast(sum.clamp(-kMaxLogRatio, kMaxLogRatio));
  const Tensor w = log_w.exp();
  const auto phi = [&](double k, double lambda) { return (k * log_w + lambda * (1 - w)).exp(); };
  const Tensor weight =
      at::where(p.advantages >= 0, phi(k_positive, lambda_positive), phi(k_negative, lambda_negative));
  return no_mask(p, {weight * p.advantages, count_clamped(sum)}, (w - 1).abs(), kUnlimited);
}

TokenDecision Topr::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  const Tensor log_ratio = p.logp - p.behavior_logp;
  const bool normalise = length_normalized == Switch::kOn;
  const auto [sequence_ratio, clamps] = clamped_exp(normalise ? sequences.mean(log_ratio) : sequences.sum(log_ratio));
  const Tensor ratio = sequences.broadcast(sequence_ratio);
  const Tensor weight = at::where(p.advantages >= 0, at::ones_like(ratio), ratio.clamp_max(1));
  return no_mask(p, {weight * p.advantages, clamps}, (ratio - 1).abs(), kUnlimited);
}

TokenDecision DsV32::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  const auto [ratio, clamps] = importance_ratio(p, anchor);
  const Tensor drift = sequences.broadcast(sequences.mean(p.behavior_logp - p.logp));
  const Tensor has_drifted = (p.advantages < 0).logical_and(drift > delta);
  return hard_mask(p, {ratio.clamp_max(ratio_cap), clamps},
                   has_drifted.logical_or(is_clipped(p.advantages, ratio, low, high)), drift,
                   by_sign(p.advantages, kUnlimited, delta));
}

TokenDecision TrmMax::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  return mask_above(p, sequences.broadcast(sequences.max(token_divergence(p, divergence).value)), delta);
}

TokenDecision TrmAvg::operator()(const LossInputs& p) const {
  const SequenceReducer sequences(p);
  return mask_above(p, sequences.broadcast(sequences.mean(token_divergence(p, divergence).value)), delta);
}

std::vector<MethodRow<SequenceLevelFamily>> sequence_level_rows() {
  const std::string clip = "; blocked: A > 0 and s > 1 + high, A < 0 and s < 1 - low, the whole sequence";
  return {
      {.name = "gspo",
       .summary = "The ratio clip on the geometric mean of a sequence's ratios.",
       .equation = "g = s A, s = exp(mean log r)" + clip,
       .source = "arXiv 2507.18071",
       .advantage = "grpo",
       .aggregation = "seq_mean_token_mean",
       .region = Gspo{}},
      {.name = "gmpo",
       .summary = "The geometric mean of ratios that are clipped per token.",
       .equation = "g = G A, G = exp(mean of clipped log r); blocked: A > 0 and log r > high, A < 0 and log r < -low",
       .source = "arXiv 2507.20673",
       .advantage = "grpo",
       .aggregation = "seq_mean_token_mean",
       .region = Gmpo{}},
      {.name = "vespo",
       .summary = "A smooth weight on the product of a sequence's ratios.",
       .equation = "g = W^k exp(lambda (1 - W)) A, W = exp(sum log r), k and lambda by the sign of A",
       .source = "arXiv 2602.10693; as TRL writes it",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = Vespo{}},
      {.name = "topr",
       .summary = "Positive samples without importance weight, negative ones with a truncated sequence ratio.",
       .equation = "g = A (A >= 0), min(ratio of the sequence, 1) A (A < 0)",
       .source = "arXiv 2503.14286",
       .advantage = "group_mean",
       .aggregation = "seq_mean_token_mean",
       .region = Topr{}},
      {.name = "ds_v32",
       .summary = "The ratio clip, without bad sequences that have drifted from the sampler.",
       .equation =
           "g = min(r, ratio_cap) A; blocked: as by the ratio clip, and the sequence if A < 0 and mean log(mu/pi) > "
           "delta",
       .source = "DeepSeek-V3.2; as TRL writes it",
       .advantage = "grpo",
       .aggregation = "seq_mean_token_mean",
       .region = DsV32{}},
      {.name = "trm_max",
       .summary = "Blocks sequences with at least one token outside the trust region.",
       .equation = "g = r A; blocked: the sequence if max D > delta",
       .source = "arXiv 2512.23075, from notes and from arXiv 2606.10968",
       .advantage = "group_mean",
       .aggregation = "token_mean",
       .region = TrmMax{}},
      {.name = "trm_avg",
       .summary = "Blocks sequences whose mean divergence is outside the trust region.",
       .equation = "g = r A; blocked: the sequence if mean D > delta",
       .source = "arXiv 2512.23075, from notes and from arXiv 2606.10968",
       .advantage = "group_mean",
       .aggregation = "token_mean",
       .region = TrmAvg{}}};
}

}  // namespace keel
