#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

// Methods that separate the policy change (pi/old) from the mismatch between trainer and sampler (old/mu).

/// MiniRL (arXiv 2602.04879, appendix C.1): min(r, cap) A with r = pi/mu, and the PPO clip on pi/old.
struct MiniRl {
  double low = 0.2, high = 0.28, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("ratio_cap", ratio_cap);
  }
  Requirements requirements() const { return {.recomputed_logp = true}; }
  RegionProperties properties() const { return {.clips_ratio = true}; }
};

/// Truncated importance sampling with a ratio clip: min(old/mu, cap) r' A with r' = pi/old, and the PPO clip on r'.
struct Tis {
  double low = 0.2, high = 0.28, ratio_cap = 2, dual = kUnlimited;
  Level level = Level::kToken;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("ratio_cap", ratio_cap);
    visitor("dual", dual, NumberRange::kAtLeastOne), visitor("level", level);
  }
  Requirements requirements() const {
    return {.recomputed_logp = true, .scope = level == Level::kToken ? Scope::kToken : Scope::kSequence};
  }
  RegionProperties properties() const { return {.clips_ratio = true}; }
};

/// Masked importance sampling: (old/mu) r' A with the PPO clip on r', also blocked if old/mu is outside [gap_low,
/// gap_high]. IcePop (arXiv 2510.18855) is the token-level case.
struct Mis {
  double low = 0.2, high = 0.28, gap_low = 0.5, gap_high = 5;
  Level level = Level::kToken;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("gap_low", gap_low, NumberRange::kNonNegative),
        visitor("gap_high", gap_high);
    visitor("level", level);
  }
  Requirements requirements() const {
    return {.recomputed_logp = true, .scope = level == Level::kToken ? Scope::kToken : Scope::kSequence};
  }
  RegionProperties properties() const { return {.clips_ratio = true}; }
  std::optional<InvalidParameter> check_parameters() const {
    return check_bounds("gap_low", gap_low, "gap_high", gap_high);
  }
};

/// OpenRLHF's gates: (old/mu) r' A with the PPO clip on r' = pi/old, and a gate on a measure m of old from mu, without
/// regard to the advantage. The mode mask blocks tokens with m outside [gate_low, gate_high]; the mode clip clips
/// old/mu to that interval. At sequence level m is the mean over the tokens; for the ratio it is the geometric mean.
struct OpenRlhf {
  double low = 0.2, high = 0.2, dual = kUnlimited, gate_low = 0.5, gate_high = 5;
  GateMeasure measure = GateMeasure::kRatio;
  GateMode mode = GateMode::kMask;
  Level level = Level::kToken;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("dual", dual, NumberRange::kAtLeastOne);
    visitor("gate_low", gate_low, NumberRange::kNonNegative), visitor("gate_high", gate_high);
    visitor("measure", measure), visitor("mode", mode), visitor("level", level);
  }
  Requirements requirements() const {
    return {.recomputed_logp = true, .scope = level == Level::kToken ? Scope::kToken : Scope::kSequence};
  }
  RegionProperties properties() const { return {.clips_ratio = true}; }
  std::optional<InvalidParameter> check_parameters() const;
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using RolloutCorrectionFamily = std::variant<MiniRl, Tis, Mis, OpenRlhf>;
std::vector<MethodRow<RolloutCorrectionFamily>> rollout_correction_rows();

}  // namespace keel
