#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

/// SAPO (arXiv 2511.20347): J = (4/tau) sigmoid(tau (r - 1)) A, g = 4 r A sigmoid(x) sigmoid(-x) with x = tau (r - 1).
struct Sapo {
  double tau_positive = 1, tau_negative = 1.05;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("tau_positive", tau_positive), visitor("tau_negative", tau_negative), visitor("anchor", anchor);
  }
  Requirements requirements() const { return {.recomputed_logp = anchor == Anchor::kRecomputed}; }
  RegionProperties properties() const { return {.has_boundary = false}; }
};

/// DGPO (arXiv 2603.14389): r A inside the PPO clip range; where PPO blocks, the weight decays as a power of r instead:
/// r^(n+1)/(1 - low)^n below (A < 0), r^(1 - 1/m) (1 + high)^(1/m) above (A > 0).
struct Dgpo {
  double low = 0.2, high = 0.28, n = 1, m = 2;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("n", n, NumberRange::kNonNegative), visitor("m", m);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.clips_ratio = true}; }
};

/// MASPO: r A, times exp(-(r - 1)^2/(2 w^2)) where the update moves away from mu. The width w grows for rare tokens and
/// with the advantage: clamp(sigma/mu^alpha, sigma, sigma_high) clamp(f, factor_low, factor_high), f = 1 + beta A (A >
/// 0), 1/(1 - beta A) (A < 0).
struct Maspo {
  double sigma = 1, alpha = 0.3, sigma_high = 10, beta = 0.03, factor_low = 0.1, factor_high = 10;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("sigma", sigma), visitor("alpha", alpha, NumberRange::kNonNegative), visitor("sigma_high", sigma_high),
        visitor("beta", beta, NumberRange::kNonNegative);
    visitor("factor_low", factor_low, NumberRange::kNonNegative), visitor("factor_high", factor_high);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.has_boundary = false}; }
  std::optional<InvalidParameter> check_parameters() const {
    const auto found = check_bounds("sigma", sigma, "sigma_high", sigma_high);
    return found ? found : check_bounds("factor_low", factor_low, "factor_high", factor_high);
  }
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using SoftFamily = std::variant<Sapo, Dgpo, Maspo>;
std::vector<MethodRow<SoftFamily>> soft_rows();

}  // namespace keel
