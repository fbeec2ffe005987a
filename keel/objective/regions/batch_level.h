#pragma once

#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

// Methods whose test depends on the whole update.

/// M2PO (arXiv 2510.01161): min(r, cap) A, blocked when the update leads away and |log r| > tau, where tau brings the
/// mean of min((log r)^2, tau^2) over the tokens that lead away down to `budget`.
struct M2po {
  double budget = 0.04, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& policy) const;
  void visit(const ParameterVisitor& visitor) { visitor("budget", budget), visitor("ratio_cap", ratio_cap); }
  Requirements requirements() const { return {.scope = Scope::kBatch}; }
};

/// TVPO: min(r, cap) A, blocked when the update leads away and the mean of |r - 1|/2 is above clip/2. The mean is over
/// the group's sequences of their token means, or over all tokens of the update.
struct Tvpo {
  double clip = 0.2, ratio_cap = kUnlimited;
  AverageOver scope = AverageOver::kGroup;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& policy) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("clip", clip), visitor("ratio_cap", ratio_cap), visitor("scope", scope), visitor("anchor", anchor);
  }
  Requirements requirements() const {
    return {.recomputed_logp = anchor == Anchor::kRecomputed, .scope = Scope::kBatch};
  }
};

/// The regions of this family; a new one is added here and becomes an alternative of TrustRegion.
using BatchLevelFamily = std::variant<M2po, Tvpo>;
std::vector<MethodRow<BatchLevelFamily>> batch_level_rows();

}  // namespace keel
