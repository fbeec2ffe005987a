#pragma once

#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

/// REINFORCE without importance weights: g = A.
struct Reinforce {
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor&) {}
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.has_boundary = false}; }
};

/// Importance-weighted policy gradient without a trust region: g = min(r, cap) A.
struct PolicyGradient {
  double ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("ratio_cap", ratio_cap); }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.has_boundary = false}; }
};

/// CISPO (arXiv 2506.13585): g = clip(r, 1 - low, 1 + high) A; an infinite `low` means no lower bound, as in the paper.
struct Cispo {
  double low = kUnlimited, high = 0.28;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("low", low), visitor("high", high), visitor("anchor", anchor); }
  Requirements requirements() const { return {.recomputed_logp = anchor == Anchor::kRecomputed}; }
  RegionProperties properties() const { return {.clips_ratio = true, .has_boundary = false}; }
};

/// DRO as implemented in verl: J = A log pi - beta/2 (log r)^2, g = A - beta log r.
struct Dro {
  double beta = 0.1;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("beta", beta, NumberRange::kNonNegative); }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.has_boundary = false}; }
};

/// A penalty on the ratio's distance from 1, J = r A - weight |r - 1|: g = r (A - weight sign(log r)).
struct TvPenalty {
  double weight = 0.15;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("weight", weight, NumberRange::kNonNegative); }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.has_boundary = false}; }
};

/// A penalty on k3, J = r A - weight (r - 1 - log r): g = r A - weight (r - 1).
struct K3Penalty {
  double weight = 0.15;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("weight", weight, NumberRange::kNonNegative); }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.has_boundary = false}; }
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using PolicyGradientFamily = std::variant<Reinforce, PolicyGradient, Cispo, Dro, TvPenalty, K3Penalty>;
std::vector<MethodRow<PolicyGradientFamily>> policy_gradient_rows();

}  // namespace keel
