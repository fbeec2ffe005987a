#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Estimators of KL(pi || ref) from a token sampled from pi (Schulman, joschu.net/blog/kl-approx), d = log pi - log
/// ref. "With gradient as written" they pull differently; the mean over pi of each one's gradient is
///   k1   d               0: as a loss it is noise without a pull (in a reward it is the usual penalty)
///   k2   d^2 / 2         the gradient of KL(pi || ref)
///   k3   e^-d - 1 + d    the gradient of KL(ref || pi); never negative, TRL's and verl's usual choice
enum class KlEstimator { kK1, kK2, kK3 };

/// By its configuration word: "k1", "k2" or "k3".
KlEstimator parse_kl_estimator(const std::string& word);

// Tensors are [N], of one float type. The mask [N], bool, may be left out: every token is then valid. A masked token
// gives 0 whatever its log-probs are. The clamp of a ratio, goldens/README.md, is inside exp alone, and the coefficient
// does not vanish there. Tokens sampled from another policy are not reweighted.

/// The KL to the reference taken off the rewards: every token's reward loses beta k (arXiv 1909.08593).
struct RewardKlPenalty {
  double coefficient = 0;  // beta; 0: nothing is taken off
  KlEstimator estimator = KlEstimator::kK1;
  std::optional<double> target = {};  // the KL of a token that beta is moved to keep; none: it stays
  double horizon = 10000;             // how slowly it moves, in completions
};

/// beta after a step of that many completions whose KL was `observed`, where there is a target, by the paper's rule:
/// beta (1 + clip(observed / target - 1, -0.2, 0.2) completions / horizon).
double next_kl_coefficient(const RewardKlPenalty& kl, double observed, int64_t completions);

/// The estimate for each token.
Tensor reference_kl(KlEstimator estimator, const Tensor& logp, const Tensor& reference_logp, const Tensor& mask = {});

/// What the term -beta k of an objective adds to the coefficient of grad log pi: -beta dk/dlog pi, which is -beta for
/// k1, -beta d for k2 and -beta (1 - e^-d) for k3. It is added to the method's coefficient before aggregation, also
/// for tokens that the trust region blocks.
///
/// An entropy bonus needs nothing of the kind: it is the constant in `entropy_coefficient` grad H, which the head takes
/// beside this coefficient.
Tensor reference_kl_coefficient(KlEstimator estimator, double beta, const Tensor& logp, const Tensor& reference_logp,
                                const Tensor& mask = {});

/// How many log-ratios the clamp before exp changes in them; only k3 has an exp. [].
Tensor reference_kl_clamp_count(KlEstimator estimator, const Tensor& logp, const Tensor& reference_logp,
                                const Tensor& mask = {});

}  // namespace keel
