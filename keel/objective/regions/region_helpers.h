#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/objective/regions/divergence.h"
#include "keel/objective/regions/loss_inputs.h"
#include "keel/objective/regions/parameter_types.h"
#include "keel/objective/regions/region_properties.h"

namespace keel {

// What the regions are made of; for their own use.

/// A tensor made from log-ratios that were clamped before exp, and how many of them the clamp changed.
struct ClampedTensor {
  Tensor value;
  Tensor count;  // [] integer
};

/// g = weight A where not blocked, 0 where blocked.
TokenDecision hard_mask(const LossInputs& policy, const ClampedTensor& weight, const Tensor& blocked,
                        const Tensor& divergence, const Tensor& threshold);

/// g as given; nothing is blocked.
TokenDecision no_mask(const LossInputs& policy, const ClampedTensor& coefficient, const Tensor& divergence,
                      double threshold, const Tensor& outside = {});

/// `positive` where A > 0, `otherwise` elsewhere.
Tensor by_advantage_sign(const Tensor& advantages, double positive, double otherwise);

/// No token.
Tensor none(const LossInputs& policy);

/// PPO's test: A > 0 and ratio > 1 + high, or A < 0 and ratio < 1 - low or ratio > dual.
Tensor outside_ratio_clip(const Tensor& advantages, const Tensor& ratio, double low, double high,
                          double dual = kUnlimited);

/// Log-probs of the anchor: mu's, or the trainer's own at the sampling weights.
const Tensor& anchor_logp(const LossInputs& policy, Anchor anchor);

/// Its log(1 - p); may be undefined.
const Tensor& anchor_other_logp(const LossInputs& policy, Anchor anchor);

/// The count of a method without a ratio: 0.
Tensor zero_count(const LossInputs& policy);

/// exp(clamp(x, -20, 20)). A region adds the count of each log-ratio to its decision once.
ClampedTensor clamped_exp(const Tensor& log_ratio);

/// pi / anchor.
ClampedTensor importance_ratio(const LossInputs& policy, Anchor anchor = Anchor::kBehavior);

/// min(pi / mu, cap).
ClampedTensor capped_ratio(const LossInputs& policy, double ratio_cap);

/// A (pi - anchor) > 0: the update makes the distance to the anchor larger.
Tensor moves_away(const LossInputs& policy, Anchor anchor = Anchor::kBehavior);

/// The divergence of each token from the anchor. Only the binary and the sampled ones know another anchor than mu. From
/// mu, the log-ratio of k3 is that of pi / mu, which counts its clamps: the count here is then 0.
ClampedTensor token_divergence(const LossInputs& policy, Divergence divergence, Anchor anchor = Anchor::kBehavior,
                               TopKSupport support = TopKSupport::kUnion);

/// DPPO's choice of K for the top-K divergences (arXiv 2602.04879, appendix F.3).
inline constexpr double kDefaultTopK = 20;

/// Whether it looks at the sampler's K most likely tokens; whether it is a total variation, at most 1.
bool is_total_variation(Divergence divergence);

/// What must be known to compute it; `k` is the K of a top-K divergence.
Requirements divergence_requirements(Divergence divergence, double k, Anchor anchor = Anchor::kBehavior,
                                     Scope scope = Scope::kToken);

/// `thresholds`, where the divergence is a total variation; none otherwise.
std::vector<std::string> if_total_variation(Divergence divergence, std::vector<std::string> thresholds);

/// What is no distance of one token from that anchor, and can be held against no threshold.
std::optional<InvalidParameter> check_divergence(Divergence divergence, Anchor anchor = Anchor::kBehavior);

/// A lower bound above the upper one, which leaves nothing between them.
std::optional<InvalidParameter> check_bounds(const char* low_name, double low, const char* high_name, double high);

}  // namespace keel
