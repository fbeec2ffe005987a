#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/objective/regions/divergence.h"
#include "keel/objective/regions/loss_inputs.h"
#include "keel/objective/regions/parameter_types.h"
#include "keel/objective/regions/region_properties.h"

namespace keel {

// Building blocks of the regions.

/// A tensor computed from log-ratios that were clamped before exp, and the number of log-ratios that changed.
struct ClampedTensor {
  Tensor value;
  Tensor count;  // [] integer
};

/// g = weight * A; 0 for blocked tokens.
TokenDecision hard_mask(const LossInputs& inputs, const ClampedTensor& weight, const Tensor& blocked,
                        const Tensor& divergence, const Tensor& threshold);

/// g = coefficient; no token is blocked.
TokenDecision no_mask(const LossInputs& inputs, const ClampedTensor& coefficient, const Tensor& divergence,
                      double threshold, const Tensor& outside = {});

/// `positive` where A > 0, `otherwise` elsewhere.
Tensor by_sign(const Tensor& advantages, double positive, double otherwise);

/// An all-false mask [N].
Tensor all_false(const LossInputs& inputs);

/// The PPO clip: A > 0 and ratio > 1 + high, or A < 0 and (ratio < 1 - low or ratio > dual).
Tensor is_clipped(const Tensor& advantages, const Tensor& ratio, double low, double high, double dual = kUnlimited);

/// log p and log(1 - p) of the anchor; the latter may be undefined.
const Tensor& anchor_logp(const LossInputs& inputs, Anchor anchor);
const Tensor& anchor_other_logp(const LossInputs& inputs, Anchor anchor);

/// The clamp count of a method without a ratio: 0.
Tensor zero_count(const LossInputs& inputs);

/// exp(clamp(log_ratio, -20, 20)). A region adds the count of each log-ratio to its decision once.
ClampedTensor clamped_exp(const Tensor& log_ratio);

/// pi / anchor.
ClampedTensor importance_ratio(const LossInputs& inputs, Anchor anchor = Anchor::kBehavior);

/// min(pi / mu, cap).
ClampedTensor capped_ratio(const LossInputs& inputs, double ratio_cap);

/// A (pi - anchor) > 0: the update increases the distance to the anchor.
Tensor moves_away(const LossInputs& inputs, Anchor anchor = Anchor::kBehavior);

/// The divergence of each token from the anchor. Top-K and full divergences support only the anchor mu. For k3 from mu
/// the count is 0: it has the same clamps as pi / mu, which the caller counts.
ClampedTensor token_divergence(const LossInputs& inputs, Divergence divergence, Anchor anchor = Anchor::kBehavior,
                               TopKSupport support = TopKSupport::kUnion);

/// The K of top-K divergences in DPPO (arXiv 2602.04879, appendix F.3).
inline constexpr double kDefaultTopK = 20;

/// Returns whether the divergence is a total variation, which is at most 1.
bool is_total_variation(Divergence divergence);

/// The inputs that the divergence needs; `k` is the K of a top-K divergence.
Requirements divergence_requirements(Divergence divergence, double k, Anchor anchor = Anchor::kBehavior,
                                     Scope scope = Scope::kToken);

/// Returns `thresholds` if the divergence is a total variation, else an empty list.
std::vector<std::string> if_total_variation(Divergence divergence, std::vector<std::string> thresholds);

/// Rejects k1, k2 and k3, which are not distances of one token, and divergences that cannot be measured from this anchor.
std::optional<InvalidParameter> check_divergence(Divergence divergence, Anchor anchor = Anchor::kBehavior);

/// Rejects a lower bound above the upper bound.
std::optional<InvalidParameter> check_bounds(const char* low_name, double low, const char* high_name, double high);

}  // namespace keel
