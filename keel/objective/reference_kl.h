#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Estimators of KL(pi || ref) from a token sampled from pi (Schulman, joschu.net/blog/kl-approx), d = log pi - log
/// ref. Differentiated as written, their expected gradients under pi are:
///   k1   d               0: useless as a loss, but the usual penalty in a reward
///   k2   d^2 / 2         the gradient of KL(pi || ref)
///   k3   e^-d - 1 + d    the gradient of KL(ref || pi); never negative, the default of TRL and verl
enum class KlEstimator { kK1, kK2, kK3 };

/// Parses "k1", "k2" or "k3"; fails (exit code 2) for other values.
KlEstimator parse_kl_estimator(const std::string& name);

// Tensors are [N], of one float type. The bool mask [N] is optional; masked tokens give 0 whatever their log-probs are.
// The log-ratio is clamped only inside exp, and derivatives ignore the clamp (tests/goldens/README.md).
// Tokens sampled from another policy are not reweighted.

/// The reference KL as a reward penalty: beta k is subtracted from the reward of each token (arXiv 1909.08593).
struct RewardKlPenalty {
  double coefficient = 0;  // beta; 0: no penalty
  KlEstimator estimator = KlEstimator::kK1;
  std::optional<double> target = {};  // KL per token that beta adapts to; none: beta is constant
  double horizon = 10000;             // adaptation time, in completions
};

/// The adapted beta after a step of `completions` completions with the KL `observed`, as in the paper:
/// beta (1 + clip(observed / target - 1, -0.2, 0.2) completions / horizon).
double next_kl_coefficient(const RewardKlPenalty& kl, double observed, int64_t completions);

Tensor reference_kl(KlEstimator estimator, const Tensor& logp, const Tensor& reference_logp, const Tensor& mask = {});

/// The gradient coefficient of the objective term -beta k: -beta dk/dlog pi, which is -beta for k1, -beta d for k2 and
/// -beta (1 - e^-d) for k3. It is added to the coefficient of the method before aggregation, also for tokens that the
/// trust region masks. (The entropy_coefficient is passed to the LM head separately.)
Tensor reference_kl_coefficient(KlEstimator estimator, double beta, const Tensor& logp, const Tensor& reference_logp,
                                const Tensor& mask = {});

/// Returns the number of log-ratios that the clamp before exp changes, a scalar tensor; 0 except for k3, which has exp.
Tensor reference_kl_clamp_count(KlEstimator estimator, const Tensor& logp, const Tensor& reference_logp,
                                const Tensor& mask = {});

}  // namespace keel
