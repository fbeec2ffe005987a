#include "keel/objective/regions/region_helpers.h"

#include <ATen/ATen.h>

#include <string_view>
#include <utility>

#include "keel/core/error.h"

namespace keel {
namespace {

bool is_full(Divergence divergence) { return divergence == Divergence::kFullTv || divergence == Divergence::kFullKl; }
bool is_topk(Divergence divergence) { return divergence == Divergence::kTopKTv || divergence == Divergence::kTopKKl; }

}  // namespace

bool is_total_variation(Divergence d) {
  return d == Divergence::kBinaryTv || d == Divergence::kTopKTv || d == Divergence::kFullTv;
}

TokenDecision hard_mask(const LossInputs& p, const ClampedTensor& weight, const Tensor& blocked,
                        const Tensor& divergence, const Tensor& threshold) {
  return {(weight.value * p.advantages).masked_fill(blocked, 0),
          blocked.logical_not(),
          divergence,
          threshold,
          /*outside=*/{},
          weight.count};
}

TokenDecision no_mask(const LossInputs& p, const ClampedTensor& coefficient, const Tensor& divergence, double threshold,
                      const Tensor& outside) {
  return {coefficient.value,
          all_false(p).logical_not(),
          divergence,
          at::full_like(p.advantages, threshold),
          outside.defined() ? outside : all_false(p),
          coefficient.count};
}

Tensor by_sign(const Tensor& advantages, double positive, double otherwise) {
  return at::where(advantages > 0, at::full_like(advantages, positive), at::full_like(advantages, otherwise));
}

Tensor all_false(const LossInputs& p) { return at::zeros_like(p.advantages, p.advantages.options().dtype(at::kBool)); }

Tensor is_clipped(const Tensor& advantages, const Tensor& ratio, double low, double high, double dual) {
  const Tensor negative = (ratio < 1 - low).logical_or(ratio > dual);
  return at::where(advantages > 0, ratio > 1 + high, (advantages < 0).logical_and(negative));
}

const Tensor& anchor_logp(const LossInputs& p, Anchor anchor) {
  return anchor == Anchor::kBehavior ? p.behavior_logp : p.old_logp;
}

const Tensor& anchor_other_logp(const LossInputs& p, Anchor anchor) {
  return anchor == Anchor::kBehavior ? p.behavior_other_logp : p.old_other_logp;
}

Tensor zero_count(const LossInputs& p) { return at::zeros({}, p.logp.options().dtype(at::kLong)); }

ClampedTensor clamped_exp(const Tensor& log_ratio) {
  return {log_ratio.clamp(-kMaxLogRatio, kMaxLogRatio).exp(), count_clamped(log_ratio)};
}

ClampedTensor importance_ratio(const LossInputs& p, Anchor anchor) {
  return clamped_exp(p.logp - anchor_logp(p, anchor));
}

ClampedTensor capped_ratio(const LossInputs& p, double ratio_cap) {
  const auto [ratio, clamps] = importance_ratio(p);
  return {ratio.clamp_max(ratio_cap), clamps};
}

Tensor moves_away(const LossInputs& p, Anchor anchor) {
  // Signs, not a product: a tiny advantage times a tiny difference is 0 in float32.
  return p.advantages.sign() * (p.logp - anchor_logp(p, anchor)).sign() > 0;
}

ClampedTensor token_divergence(const LossInputs& p, Divergence divergence, Anchor anchor, TopKSupport support) {
  if (anchor != Anchor::kBehavior && (is_topk(divergence) || is_full(divergence)))
    fail(ExitCode::kBadConfiguration, "the divergence ", choices_of(divergence)[static_cast<size_t>(divergence)],
         " needs the anchor \"behavior\"; with the anchor \"recomputed\" use binary_tv or binary_kl");
  const Tensor& mu = anchor_logp(p, anchor);
  const auto topk = [&] {
    return TopKLogProbs{p.topk_behavior_logp, p.topk_logp, p.behavior_logp, p.logp, p.sampled_in_topk, p.choices};
  };
  const Tensor not_clamped = zero_count(p);
  switch (divergence) {
    case Divergence::kBinaryTv:
      return {binary_tv(p.logp, mu), not_clamped};
    case Divergence::kBinaryKl:
      return {binary_kl(p.logp, mu, p.other_logp, anchor_other_logp(p, anchor)), not_clamped};
    case Divergence::kTopKTv:
      return {topk_tv(topk(), support), not_clamped};
    case Divergence::kTopKKl:
      return {topk_kl(topk(), support), not_clamped};
    case Divergence::kFullTv:
    case Divergence::kFullKl:
      return {p.divergence, not_clamped};
    case Divergence::kK1:
      return {k1(p.logp, mu), not_clamped};
    case Divergence::kK2:
      return {k2(p.logp, mu), not_clamped};
    case Divergence::kK3:
      return {k3(p.logp, mu), anchor == Anchor::kBehavior ? not_clamped : count_clamped(p.logp - mu)};
  }
  fail(ExitCode::kInternal, "unknown divergence: ", static_cast<int>(divergence));
}

Requirements divergence_requirements(Divergence divergence, double k, Anchor anchor, Scope scope) {
  return {.top_k = is_topk(divergence) ? static_cast<int64_t>(k) : 0,
          .hidden_states = is_full(divergence),
          .exact_kl = divergence == Divergence::kFullKl,
          .recomputed_logp = anchor == Anchor::kRecomputed,
          .scope = scope};
}

std::vector<std::string> if_total_variation(Divergence divergence, std::vector<std::string> thresholds) {
  return is_total_variation(divergence) ? std::move(thresholds) : std::vector<std::string>();
}

std::optional<InvalidParameter> check_divergence(Divergence divergence, Anchor anchor) {
  const std::string_view name = choices_of(divergence)[static_cast<size_t>(divergence)];
  if (divergence == Divergence::kK1 || divergence == Divergence::kK2 || divergence == Divergence::kK3)
    return invalid_parameter("divergence", "divergence is ", name,
                             ", which is not a distance of one token; expected binary_tv, "
                             "binary_kl, topk_tv, topk_kl, full_tv or full_kl");
  if (anchor == Anchor::kRecomputed && (is_topk(divergence) || is_full(divergence)))
    return invalid_parameter(
        "anchor", "anchor is recomputed, but ", name,
        " is measured from the distribution of the sampler; expected the anchor behavior, or the divergence "
        "binary_tv or binary_kl");
  return {};
}

std::optional<InvalidParameter> check_bounds(const char* low_name, double low, const char* high_name, double high) {
  if (low <= high) return {};
  return invalid_parameter(low_name, low_name, " is ", low, " and ", high_name, " is ", high, "; expected ", low_name,
                           " at most ", high_name);
}

}  // namespace keel
