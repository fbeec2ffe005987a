#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

/// CPPO (arXiv 2606.10968): min(r, cap) A, blocked if the update moves away from mu and w_t D_t > c_t, where D is |pi -
/// mu|, w_t = 1 - (1 - w_min)(t - 1)/(T - 1) and c_t = min(delta, delta + sum_{j<t} w_j (delta_b - D_j)): divergence in
/// the prefix reduces the budget of later tokens. T is the number of valid tokens unless `horizon` is finite. With a
/// finite `quantile`, delta_b is that quantile of D over the sequence, clamped to [delta_b, delta_b_max].
struct Cppo {
  double delta = 0.15, w_min = 0.8, delta_b = 0.015, ratio_cap = kUnlimited;
  double quantile = kUnlimited, delta_b_max = kUnlimited, horizon = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("delta", delta), visitor("w_min", w_min, NumberRange::kUnitInterval);
    visitor("delta_b", delta_b, NumberRange::kNonNegative), visitor("ratio_cap", ratio_cap);
    visitor("quantile", quantile, NumberRange::kUnitInterval), visitor("delta_b_max", delta_b_max);
    visitor("horizon", horizon, NumberRange::kAtLeastOne);
  }
  Requirements requirements() const { return {.scope = Scope::kSequence}; }
  std::optional<InvalidParameter> check_parameters() const {
    return check_bounds("delta_b", delta_b, "delta_b_max", delta_b_max);
  }
  std::optional<InvalidParameter> check_length(double valid_tokens) const;

  /// Returns whether w_t of the last token would be negative, because the sequence is longer than the horizon.
  bool has_negative_weight(double valid_tokens) const;
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using CppoFamily = std::variant<Cppo>;
std::vector<MethodRow<CppoFamily>> cppo_rows();

}  // namespace keel
