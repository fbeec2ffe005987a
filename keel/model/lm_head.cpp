#include "keel/model/lm_head.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

constexpr double kSmallestLog = -1e30;  // in place of -inf, so that 0 log 0 is 0 and not NaN

/// The log-probabilities [m, V] of logits, at the temperature; may overwrite the logits.
Tensor log_probabilities(Tensor logits, double temperature) {
  if (temperature != 1.0) logits.div_(temperature);
  return at::log_softmax(logits, -1);
}

TokenStats chunk_statistics(const Tensor& logps, const Tensor& probabilities, const Tensor& targets,
                            const Tensor& topk_ids) {
  TokenStats stats;
  stats.logp = logps.gather(1, targets.unsqueeze(1)).squeeze(1).clamp_max(0);
  // p log p is 0 where p is 0, also where log p is -inf.
  stats.entropy = -(probabilities * logps.clamp_min(kSmallestLog)).sum(1);
  if (topk_ids.defined()) stats.topk_logp = logps.gather(1, topk_ids).clamp_max(0);
  return stats;
}

/// Adds the exact divergences between the sampler's distribution and the chunk's.
void add_exact_divergences(TokenStats& stats, const Tensor& behavior_logps, const Tensor& logps,
                           const Tensor& probabilities) {
  const Tensor mu = behavior_logps.exp();
  stats.full_tv = (mu - probabilities).abs_().sum(1).mul_(0.5);
  stats.full_kl = (mu * (behavior_logps.clamp_min(kSmallestLog) - logps.clamp_min(kSmallestLog))).sum(1).clamp_min_(0);
}

/// d loss / d logits of one chunk; overwrites `probabilities`.
Tensor logit_gradient(const HeadCoefficients& c, const Tensor& logps, Tensor probabilities, const TokenStats& stats,
                      const Tensor& targets, double temperature) {
  // d logp_t / d z_j = [j = t] - p_j and d H / d z_j = -p_j (log p_j + H).
  Tensor row_scale = c.coefficient.unsqueeze(1);
  Tensor gradient;
  if (c.entropy_coefficient.defined()) {
    const Tensor entropy_scale =
        c.entropy_coefficient.unsqueeze(1) * (logps.clamp_min(kSmallestLog) + stats.entropy.unsqueeze(1));
    gradient = probabilities.mul_(row_scale + entropy_scale);
  } else {
    gradient = probabilities.mul_(row_scale);
  }
  gradient.scatter_add_(1, targets.unsqueeze(1), -row_scale);
  return temperature == 1.0 ? gradient : gradient.div_(temperature);
}

void accumulate_gradient(const Tensor& weight, const Tensor& gradient_logits, const Tensor& hidden) {
  if (!weight.requires_grad()) return;
  Tensor& grad = weight.mutable_grad();
  if (!grad.defined()) grad = at::zeros_like(weight);
  grad.addmm_(gradient_logits.t(), hidden);
}

}  // namespace

Tensor softcapped(const Tensor& x, double cap) { return cap > 0 ? (x / cap).tanh_().mul_(cap) : x; }

/// A run of rows while its logits are alive.
struct LmHead::Chunk {
  int64_t begin, rows;
  Tensor hidden, targets, logps, probabilities;
  Tensor softcap_slope;  // d capped / d raw logits, where there is a cap
  TokenStats stats;
};

LmHead::Chunk LmHead::make_chunk(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior,
                                 int64_t begin) const {
  const int64_t rows = std::min(chunk_rows_, hidden.size(0) - begin);
  const auto part = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, rows) : x; };
  const auto logits = [&](const Tensor& states, const Tensor& weight) {
    return softcapped(at::linear(states, weight).to(at::kFloat), softcap_);
  };
  Chunk chunk{begin, rows, part(hidden), part(targets), {}, {}, {}, {}};
  const Tensor mine = logits(chunk.hidden, weight_);
  if (softcap_ > 0) chunk.softcap_slope = 1 - (mine / softcap_).square();
  chunk.logps = log_probabilities(mine, temperature_);
  chunk.probabilities = chunk.logps.exp();
  chunk.stats = chunk_statistics(chunk.logps, chunk.probabilities, chunk.targets, part(behavior.topk_ids));
  if (behavior.hidden.defined())
    add_exact_divergences(chunk.stats, log_probabilities(logits(part(behavior.hidden), behavior.weight), temperature_),
                          chunk.logps, chunk.probabilities);
  return chunk;
}

TokenStats LmHead::statistics(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior) const {
  const at::NoGradGuard no_grad;
  std::vector<TokenStats> chunks;
  for (int64_t begin = 0; begin < hidden.size(0); begin += chunk_rows_)
    chunks.push_back(make_chunk(hidden, targets, behavior, begin).stats);
  const auto joined_rows = [&](Tensor TokenStats::*member) {
    std::vector<Tensor> parts;
    for (const TokenStats& stats : chunks)
      if ((stats.*member).defined()) parts.push_back(stats.*member);
    return parts.empty() ? Tensor() : at::cat(parts);
  };
  if (chunks.empty()) return {at::empty({0}, hidden.options()), at::empty({0}, hidden.options())};
  return {joined_rows(&TokenStats::logp), joined_rows(&TokenStats::entropy), joined_rows(&TokenStats::topk_logp),
          joined_rows(&TokenStats::full_tv), joined_rows(&TokenStats::full_kl)};
}

Tensor LmHead::backward(const Tensor& hidden, const Tensor& targets, Scope scope,
                        const CoefficientFunction& coefficients, const BehaviorRows& behavior) const {
  const at::NoGradGuard no_grad;
  const int64_t total = hidden.size(0);
  HeadCoefficients all;
  if (scope != Scope::kToken) all = coefficients(statistics(hidden, targets, behavior), 0, total);

  Tensor gradient_hidden = at::empty_like(hidden);
  for (int64_t begin = 0; begin < total; begin += chunk_rows_) {
    const Chunk chunk = make_chunk(hidden, targets, scope == Scope::kToken ? behavior : BehaviorRows{}, begin);
    HeadCoefficients mine;
    if (scope == Scope::kToken) {
      mine = coefficients(chunk.stats, begin, begin + chunk.rows);
    } else {
      mine.coefficient = all.coefficient.narrow(0, begin, chunk.rows);
      if (all.entropy_coefficient.defined())
        mine.entropy_coefficient = all.entropy_coefficient.narrow(0, begin, chunk.rows);
    }
    Tensor gradient_logits =
        logit_gradient(mine, chunk.logps, chunk.probabilities, chunk.stats, chunk.targets, temperature_);
    if (chunk.softcap_slope.defined()) gradient_logits.mul_(chunk.softcap_slope);
    Tensor out = gradient_hidden.narrow(0, begin, chunk.rows);
    at::matmul_out(out, gradient_logits, weight_);
    accumulate_gradient(weight_, gradient_logits, chunk.hidden);
  }
  return gradient_hidden;
}

}  // namespace keel
