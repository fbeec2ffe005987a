#include "keel/objective/reference_kl.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/objective/regions/divergence.h"

namespace keel {
namespace {

/// log pi - log ref; masked tokens are set to 0 first, so that NaN in them cannot spread.
Tensor log_ratio(const Tensor& logp, const Tensor& reference_logp, const Tensor& mask) {
  const Tensor ratio = logp - reference_logp;
  return mask.defined() ? ratio.masked_fill(mask.logical_not(), 0) : ratio;
}

/// e^-d - 1 = ref / pi - 1; expm1 keeps precision, since d is near 0 for most tokens.
Tensor ratio_minus_one(const Tensor& d) { return (-d).clamp(-kMaxLogRatio, kMaxLogRatio).expm1(); }

}  // namespace

double next_kl_coefficient(const RewardKlPenalty& kl, double observed, int64_t completions) {
  if (!kl.target || !std::isfinite(observed)) return kl.coefficient;
  const double error = std::clamp(observed / *kl.target - 1, -0.2, 0.2);
  return kl.coefficient * (1 + error * static_cast<double>(completions) / kl.horizon);
}

KlEstimator parse_kl_estimator(const std::string& name) {
  if (name == "k1") return KlEstimator::kK1;
  if (name == "k2") return KlEstimator::kK2;
  if (name == "k3") return KlEstimator::kK3;
  fail(ExitCode::kBadConfiguration, "the reference-KL estimator is \"", name, "\"; known: k1, k2, k3");
}

Tensor reference_kl(KlEstimator estimator, const Tensor& logp, const Tensor& reference_logp, const Tensor& mask) {
  const at::NoGradGuard no_grad;
  const Tensor d = log_ratio(logp, reference_logp, mask);
  if (estimator == KlEstimator::kK1) return d;
  if (estimator == KlEstimator::kK2) return d * d / 2;
  return k3(-d, at::zeros_like(d));  // e^-d - 1 + d
}

Tensor reference_kl_coefficient(KlEstimator estimator, double beta, const Tensor& logp, const Tensor& reference_logp,
                                const Tensor& mask) {
  const at::NoGradGuard no_grad;
  const Tensor d = log_ratio(logp, reference_logp, mask);
  if (estimator == KlEstimator::kK2) return d * -beta;
  if (estimator == KlEstimator::kK3) return ratio_minus_one(d) * beta;
  const Tensor constant = at::full_like(d, -beta);
  return mask.defined() ? constant.masked_fill(mask.logical_not(), 0) : constant;
}

Tensor reference_kl_clamp_count(KlEstimator estimator, const Tensor& logp, const Tensor& reference_logp,
                                const Tensor& mask) {
  const at::NoGradGuard no_grad;
  const Tensor clamped = count_clamped(log_ratio(logp, reference_logp, mask));
  return estimator == KlEstimator::kK3 ? clamped : at::zeros_like(clamped);
}

}  // namespace keel
