#include "keel/objective/regions/region_parts.h"

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

TokenDecision hard_mask(const TokenPolicy& p, const Clamped& weight, const Tensor& blocked, const Tensor& divergence,
                        const Tensor& threshold) {
  return {(weight.value * p.advantages).masked_fill(blocked, 0),
          blocked.logical_not(),
          divergence,
          threshold,
          /*outside=*/{},
          weight.count};
}

TokenDecision soft(const TokenPolicy& p, const Clamped& coefficient, const Tensor& divergence, double threshold,
                   const Tensor& outside) {
  return {coefficient.value,
          none(p).logical_not(),
          divergence,
          at::full_like(p.advantages, threshold),
          outside.defined() ? outside : none(p),
          coefficient.count};
}

Tensor by_sign(const Tensor& advantages, double positive, double otherwise) {
  return at::where(advantages > 0, at::full_like(advantages, positive), at::full_like(advantages, otherwise));
}

Tensor none(const TokenPolicy& p) { return at::zeros_like(p.advantages, p.advantages.options().dtype(at::kBool)); }

Tensor ratio_leaves(const Tensor& advantages, const Tensor& ratio, double low, double high, double dual) {
  const Tensor negative = (ratio < 1 - low).logical_or(ratio > dual);
  return at::where(advantages > 0, ratio > 1 + high, (advantages < 0).logical_and(negative));
}

const Tensor& anchor_logp(const TokenPolicy& p, Anchor anchor) {
  return anchor == Anchor::kBehavior ? p.behavior_logp : p.old_logp;
}

const Tensor& anchor_other_logp(const TokenPolicy& p, Anchor anchor) {
  return anchor == Anchor::kBehavior ? p.behavior_other_logp : p.old_other_logp;
}

Tensor no_clamps(const TokenPolicy& p) { return at::zeros({}, p.logp.options().dtype(at::kLong)); }

Clamped ratio_from(const Tensor& log_ratio) {
  return {log_ratio.clamp(-kMaxLogRatio, kMaxLogRatio).exp(), count_clamped(log_ratio)};
}

Clamped ratio_of(const TokenPolicy& p, Anchor anchor) { return ratio_from(p.logp - anchor_logp(p, anchor)); }

Clamped capped_ratio(const TokenPolicy& p, double ratio_cap) {
  const auto [ratio, clamps] = ratio_of(p);
  return {ratio.clamp_max(ratio_cap), clamps};
}

Tensor leads_away(const TokenPolicy& p, Anchor anchor) {
  // Signs, not a product: a tiny advantage times a tiny difference is 0 in float32.
  return p.advantages.sign() * (p.logp - anchor_logp(p, anchor)).sign() > 0;
}

Clamped divergence_of(const TokenPolicy& p, Divergence divergence, Anchor anchor, TopKSupport support) {
  if (anchor != Anchor::kBehavior && (is_topk(divergence) || is_full(divergence)))
    fail(ExitCode::kBadConfiguration, "the divergence ", words_of(divergence)[static_cast<size_t>(divergence)],
         " is measured from the sampler's distribution; with the anchor \"recomputed\" use binary_tv or binary_kl");
  const Tensor& mu = anchor_logp(p, anchor);
  const auto topk = [&] {
    return TopKLogProbs{p.topk_behavior_logp, p.topk_logp, p.behavior_logp, p.logp, p.sampled_in_topk};
  };
  const Tensor no_clamp = no_clamps(p);
  switch (divergence) {
    case Divergence::kBinaryTv:
      return {binary_tv(p.logp, mu), no_clamp};
    case Divergence::kBinaryKl:
      return {binary_kl(p.logp, mu, p.other_logp, anchor_other_logp(p, anchor)), no_clamp};
    case Divergence::kTopKTv:
      return {topk_tv(topk(), support), no_clamp};
    case Divergence::kTopKKl:
      return {topk_kl(topk(), support), no_clamp};
    case Divergence::kFullTv:
    case Divergence::kFullKl:
      return {p.divergence, no_clamp};
    case Divergence::kK1:
      return {k1(p.logp, mu), no_clamp};
    case Divergence::kK2:
      return {k2(p.logp, mu), no_clamp};
    case Divergence::kK3:
      return {k3(p.logp, mu), anchor == Anchor::kBehavior ? no_clamp : count_clamped(p.logp - mu)};
  }
  fail(ExitCode::kInternal, "no such divergence: ", static_cast<int>(divergence));
}

Requirements needs_of(Divergence divergence, double k, Anchor anchor, Scope scope) {
  return {.top_k = is_topk(divergence) ? static_cast<int64_t>(k) : 0,
          .hidden_states = is_full(divergence),
          .exact_kl = divergence == Divergence::kFullKl,
          .recomputed_logp = anchor == Anchor::kRecomputed,
          .scope = scope};
}

std::vector<std::string> if_total_variation(Divergence divergence, std::vector<std::string> thresholds) {
  return is_total_variation(divergence) ? std::move(thresholds) : std::vector<std::string>();
}

std::optional<Contradiction> unmeasurable(Divergence divergence, Anchor anchor) {
  const std::string_view word = words_of(divergence)[static_cast<size_t>(divergence)];
  if (divergence == Divergence::kK1 || divergence == Divergence::kK2 || divergence == Divergence::kK3)
    return contradicting("divergence", "divergence is ", word,
                         ", which is a function of the ratio and no distance of one token; expected binary_tv, "
                         "binary_kl, topk_tv, topk_kl, full_tv or full_kl");
  if (anchor == Anchor::kRecomputed && (is_topk(divergence) || is_full(divergence)))
    return contradicting(
        "anchor", "anchor is recomputed, but ", word,
        " is measured from the sampler's distribution; expected the anchor behavior, or the divergence "
        "binary_tv or binary_kl");
  return {};
}

std::optional<Contradiction> crossed(const char* low_name, double low, const char* high_name, double high) {
  if (low <= high) return {};
  return contradicting(low_name, low_name, " is ", low, " and ", high_name, " is ", high, "; expected ", low_name,
                       " at most ", high_name);
}

}  // namespace keel
