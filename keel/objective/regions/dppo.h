#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

/// DPPO (arXiv 2602.04879, eq. 12 to 16): min(r, cap) A, blocked if the update moves away from the anchor,
/// A (pi - anchor) > 0, and the divergence from it is above `high` (A > 0) or `low` (A < 0). The importance ratio is
/// always over mu. Exact divergences (full_tv, full_kl) are read from LossInputs::divergence. The defaults of the rows
/// are those of the large runs (section 7); the stability study has 0.15 (TV) and no cap.
struct Dppo {
  double low = 0.2, high = 0.2, ratio_cap = 5;  // for total variations; other methods set their own
  Divergence divergence = Divergence::kBinaryTv;
  Anchor anchor = Anchor::kBehavior;
  TopKSupport support = TopKSupport::kUnion;
  double k = kDefaultTopK;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("ratio_cap", ratio_cap), visitor("k", k, NumberRange::kTopK);
    visitor("divergence", divergence), visitor("anchor", anchor), visitor("support", support);
  }
  Requirements requirements() const { return divergence_requirements(divergence, k, anchor); }
  RegionProperties properties() const { return {.tv_thresholds = if_total_variation(divergence, {"low", "high"})}; }
  std::optional<InvalidParameter> check_parameters() const { return check_divergence(divergence, anchor); }
};

/// The smallest mask that still stabilises training (DPPO, section 5.3): min(r, cap) A, blocked if A < 0 and
/// anchor - pi >= delta. The importance ratio is always over mu.
struct MinimalMask {
  double delta = 0.5, ratio_cap = kUnlimited;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("delta", delta), visitor("ratio_cap", ratio_cap), visitor("anchor", anchor);
  }
  Requirements requirements() const { return {.recomputed_logp = anchor == Anchor::kRecomputed}; }
  RegionProperties properties() const { return {.tv_thresholds = {"delta"}}; }
};

/// IPO of prime-rl: min(r, cap) A where |pi - mu| <= threshold, and for every token -2 tau log r, the gradient of
/// -tau (log r)^2.
struct Ipo {
  double threshold = 0.1, tau = 1e-3, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("threshold", threshold), visitor("tau", tau, NumberRange::kNonNegative), visitor("ratio_cap", ratio_cap);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.tv_thresholds = {"threshold"}}; }
};

/// The default loss of prime-rl in spring 2026: the DPPO mask on the binary total variation, plus -2 tau log r as in
/// Ipo.
struct PrimeRlDefault {
  double low = 0.2, high = 0.2, tau = 1e-3;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("tau", tau, NumberRange::kNonNegative);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.tv_thresholds = {"low", "high"}}; }
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using DppoFamily = std::variant<Dppo, MinimalMask, Ipo, PrimeRlDefault>;
std::vector<MethodRow<DppoFamily>> dppo_rows();

}  // namespace keel
