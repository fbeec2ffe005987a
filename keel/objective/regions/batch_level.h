#pragma once

#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

// Methods whose mask depends on the whole update.

/// M2PO (arXiv 2510.01161): min(r, cap) A, blocked if the update moves away from mu and |log r| > tau. tau is chosen
/// such that the mean of min((log r)^2, tau^2) over the tokens that move away is `budget`.
struct M2po {
  double budget = 0.04, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("budget", budget), visitor("ratio_cap", ratio_cap); }
  Requirements requirements() const { return {.scope = Scope::kBatch}; }
};

/// TVPO: min(r, cap) A, blocked if the update moves away from the anchor and the mean of |r - 1|/2 exceeds clip/2. The
/// mean is over the token means of the sequences of the group, or over all tokens of the update.
struct Tvpo {
  double clip = 0.2, ratio_cap = kUnlimited;
  AverageOver scope = AverageOver::kGroup;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("clip", clip), visitor("ratio_cap", ratio_cap), visitor("scope", scope), visitor("anchor", anchor);
  }
  Requirements requirements() const {
    return {.recomputed_logp = anchor == Anchor::kRecomputed, .scope = Scope::kBatch};
  }
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using BatchLevelFamily = std::variant<M2po, Tvpo>;
std::vector<MethodRow<BatchLevelFamily>> batch_level_rows();

}  // namespace keel
