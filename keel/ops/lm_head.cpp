#include "keel/ops/lm_head.h"

#include <ATen/ATen.h>

namespace keel {

LmHead::LmHead(Weight weight, const HeadOptions& options) : weight_(std::move(weight)), options_(options) {
  if (options_.chunk_rows > 0) return;
  const int64_t budget = int64_t{weight_.device().is_cuda() ? 768 : 64} << 20;
  const int64_t rows = budget / (weight_.shape()[0] * static_cast<int64_t>(sizeof(float)));
  // A GEMM with 152,000 outputs takes a fifth less time per row at 1,280 rows than at 832 (on an H200).
  constexpr int64_t kMultiple = 256;
  options_.chunk_rows = rows >= kMultiple ? rows / kMultiple * kMultiple : std::max<int64_t>(rows, 1);
}

Tensor apply_softcap(const Tensor& x, double cap) { return cap > 0 ? (x / cap).tanh_().mul_(cap) : x; }

/// A chunk of rows and its logits.
struct LmHead::Chunk {
  int64_t begin, rows;
  Tensor hidden, targets;
  NextTokenDistribution next;
  Tensor softcap_slope = {};  // d capped / d raw logits, if there is a softcap
  TokenStats stats = {};
  std::optional<NextTokenDistribution> behavior = {};  // the distributions mu, if the gradient reads them

  /// Completes the centering of the method with the sampler's distributions of this chunk.
  void add_behavior(ScoreCentering& centering, const BehaviorRows& rows_of_behavior) const {
    if (!centering.advantages.defined()) return;
    if (behavior)
      centering.behavior = &*behavior, centering.weights = *rows_of_behavior.weights;
    else
      centering.ids = rows_of_behavior.topk_ids.narrow(0, begin, rows);
  }
};

LmHead::Chunk LmHead::make_chunk(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior,
                                 int64_t begin) const {
  const int64_t rows = std::min(options_.chunk_rows, hidden.size(0) - begin);
  const auto part = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, rows) : x; };
  const KeptRows kept = behavior.kept.rows(begin, rows);
  const auto next_token = [&](const Tensor& states, const Weight& weight) {
    const Tensor logits = apply_softcap(weight.linear_to_float32(states, options_.bitwise), options_.softcap);
    exclude_other_tokens(logits, kept);
    return NextTokenDistribution(logits, options_.temperature);
  };
  Chunk chunk{begin, rows, part(hidden), part(targets), next_token(part(hidden), weight_)};
  if (options_.softcap > 0)  // 0 for excluded tokens, whose logits are -inf
    chunk.softcap_slope = (1 - (chunk.next.logits() / options_.softcap).square()).clamp_min_(0);
  const auto [logp, other_logp] = chunk.next.log_probs(chunk.targets);
  chunk.stats = {.logp = logp, .entropy = chunk.next.entropy(), .other_logp = other_logp};
  if (behavior.topk_ids.defined()) chunk.stats.topk_logp = chunk.next.logp(part(behavior.topk_ids));
  if (behavior.hidden.defined()) {
    chunk.behavior.emplace(next_token(part(behavior.hidden), Weight(behavior.weight)));
    const auto [tv, kl] = chunk.next.divergences_from(*chunk.behavior);
    chunk.stats.full_tv = tv;
    chunk.stats.full_kl = kl;
    if (!behavior.weights) chunk.behavior.reset();
  }
  return chunk;
}

TokenStats LmHead::statistics(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior) const {
  const at::NoGradGuard no_grad;
  std::vector<TokenStats> chunks;
  for (int64_t begin = 0; begin < hidden.size(0); begin += options_.chunk_rows)
    chunks.push_back(make_chunk(hidden, targets, behavior, begin).stats);
  const auto joined_rows = [&](Tensor TokenStats::* member) {
    std::vector<Tensor> parts;
    for (const TokenStats& stats : chunks)
      if ((stats.*member).defined()) parts.push_back(stats.*member);
    return parts.empty() ? Tensor() : at::cat(parts);
  };
  if (chunks.empty()) {
    const Tensor none = at::empty({0}, hidden.options().dtype(at::kFloat));
    return {.logp = none, .entropy = none, .other_logp = none};
  }
  TokenStats all;
  for (Tensor TokenStats::* member : {&TokenStats::logp, &TokenStats::entropy, &TokenStats::other_logp,
                                      &TokenStats::topk_logp, &TokenStats::full_tv, &TokenStats::full_kl})
    all.*member = joined_rows(member);
  return all;
}

Tensor LmHead::backward(const Tensor& hidden, const Tensor& targets, Scope scope,
                        const CoefficientFunction& coefficients, const BehaviorRows& behavior) const {
  const at::NoGradGuard no_grad;
  const int64_t total = hidden.size(0);
  HeadCoefficients all;
  if (scope != Scope::kToken) all = coefficients(statistics(hidden, targets, behavior), 0, total);

  Tensor gradient_hidden = at::empty_like(hidden, hidden.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < total; begin += options_.chunk_rows) {
    Chunk chunk =
        make_chunk(hidden, targets, scope == Scope::kToken ? behavior : BehaviorRows{.kept = behavior.kept}, begin);
    HeadCoefficients part;
    if (scope == Scope::kToken) {
      part = coefficients(chunk.stats, begin, begin + chunk.rows);
      chunk.add_behavior(part.centering, behavior);
    } else {
      part.coefficient = all.coefficient.narrow(0, begin, chunk.rows);
      if (all.entropy_coefficient.defined())
        part.entropy_coefficient = all.entropy_coefficient.narrow(0, begin, chunk.rows);
    }
    // The gradient is written in the dtype of the GEMMs that read it, unless there is a softcap.
    const bool capped = chunk.softcap_slope.defined();
    const at::ScalarType type = capped ? at::kFloat : weight_.gemm_type();
    const Tensor gradient_logits =
        chunk.next.into_gradient(chunk.targets, part.coefficient, part.entropy_coefficient, type, part.centering);
    if (capped) gradient_logits.mul_(chunk.softcap_slope);
    Tensor out = gradient_hidden.narrow(0, begin, chunk.rows);
    weight_.input_gradient_to_float32(out, gradient_logits);
    if (const auto sink = weight_.sink()) sink->add_product(gradient_logits.t(), chunk.hidden);
  }
  return gradient_hidden;
}

}  // namespace keel
