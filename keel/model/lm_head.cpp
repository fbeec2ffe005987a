#include "keel/model/lm_head.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

/// The log-probabilities [m, V] of one chunk, at the temperature.
Tensor log_probabilities(const Tensor& hidden, const Tensor& weight, double temperature) {
  Tensor logits = at::linear(hidden, weight).to(at::kFloat);
  if (temperature != 1.0) logits.div_(temperature);
  return at::log_softmax(logits, -1);
}

TokenStats chunk_statistics(const Tensor& logps, const Tensor& probabilities, const Tensor& targets) {
  const Tensor logp = logps.gather(1, targets.unsqueeze(1)).squeeze(1).clamp_max(0);
  // p log p is 0 where p is 0, also where log p is -inf.
  const Tensor entropy = -(probabilities * logps.clamp_min(-1e30)).sum(1);
  return {logp, entropy};
}

/// d loss / d logits of one chunk; overwrites `probabilities`.
Tensor logit_gradient(const HeadCoefficients& c, const Tensor& logps, Tensor probabilities, const TokenStats& stats,
                      const Tensor& targets, double temperature) {
  // d logp_t / d z_j = [j = t] - p_j and d H / d z_j = -p_j (log p_j + H).
  Tensor row_scale = c.coefficient.unsqueeze(1);
  Tensor gradient;
  if (c.entropy_coefficient.defined()) {
    const Tensor entropy_scale =
        c.entropy_coefficient.unsqueeze(1) * (logps.clamp_min(-1e30) + stats.entropy.unsqueeze(1));
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

TokenStats LmHead::statistics(const Tensor& hidden, const Tensor& targets) const {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> logp, entropy;
  for (int64_t begin = 0; begin < hidden.size(0); begin += chunk_rows_) {
    const int64_t rows = std::min(chunk_rows_, hidden.size(0) - begin);
    const Tensor logps = log_probabilities(hidden.narrow(0, begin, rows), weight_, temperature_);
    const TokenStats stats = chunk_statistics(logps, logps.exp(), targets.narrow(0, begin, rows));
    logp.push_back(stats.logp);
    entropy.push_back(stats.entropy);
  }
  if (logp.empty()) return {at::empty({0}, hidden.options()), at::empty({0}, hidden.options())};
  return {at::cat(logp), at::cat(entropy)};
}

Tensor LmHead::backward(const Tensor& hidden, const Tensor& targets, Scope scope,
                        const CoefficientFunction& coefficients) const {
  const at::NoGradGuard no_grad;
  const int64_t total = hidden.size(0);
  HeadCoefficients all;
  if (scope != Scope::kToken) all = coefficients(statistics(hidden, targets), 0, total);

  Tensor gradient_hidden = at::empty_like(hidden);
  for (int64_t begin = 0; begin < total; begin += chunk_rows_) {
    const int64_t rows = std::min(chunk_rows_, total - begin);
    const Tensor chunk = hidden.narrow(0, begin, rows), chunk_targets = targets.narrow(0, begin, rows);
    const Tensor logps = log_probabilities(chunk, weight_, temperature_);
    const Tensor probabilities = logps.exp();
    const TokenStats stats = chunk_statistics(logps, probabilities, chunk_targets);
    HeadCoefficients mine;
    if (scope == Scope::kToken) {
      mine = coefficients(stats, begin, begin + rows);
    } else {
      mine.coefficient = all.coefficient.narrow(0, begin, rows);
      if (all.entropy_coefficient.defined()) mine.entropy_coefficient = all.entropy_coefficient.narrow(0, begin, rows);
    }
    const Tensor gradient_logits = logit_gradient(mine, logps, probabilities, stats, chunk_targets, temperature_);
    at::Tensor out = gradient_hidden.narrow(0, begin, rows);
    at::matmul_out(out, gradient_logits, weight_);
    accumulate_gradient(weight_, gradient_logits, chunk);
  }
  return gradient_hidden;
}

}  // namespace keel
