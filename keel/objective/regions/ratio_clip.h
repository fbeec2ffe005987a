#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

/// PPO's ratio clip (arXiv 1707.06347): min(r, cap) A, blocked if A > 0 and r > 1 + high, or A < 0 and r < 1 - low;
/// with a dual clip also if A < 0 and r > dual.
struct PpoClip {
  double low = 0.2, high = 0.2, dual = kUnlimited, ratio_cap = kUnlimited;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("dual", dual, NumberRange::kAtLeastOne);
    visitor("ratio_cap", ratio_cap), visitor("anchor", anchor);
  }
  Requirements requirements() const { return {.recomputed_logp = anchor == Anchor::kRecomputed}; }
  RegionProperties properties() const { return {.clips_ratio = true}; }
};

/// The ratio clip in the DPPO study of rare tokens (arXiv 2602.04879, section 6): tokens with mu < alpha are not
/// clipped on the `relaxed` side.
struct RelaxedClip {
  double low = 0.2, high = 0.28, alpha = 0.1, ratio_cap = kUnlimited;
  Side relaxed = Side::kBoth;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("alpha", alpha, NumberRange::kUnitInterval);
    visitor("ratio_cap", ratio_cap), visitor("relaxed", relaxed);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.clips_ratio = true}; }
};

/// ASPO (arXiv 2510.06062): min(1/r, cap) for positive advantages, min(r, cap) for negative ones, with the PPO mask. As
/// in the code of the authors, without its entropy split.
struct Aspo {
  double low = 0.2, high = 0.28, ratio_cap = 3;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("ratio_cap", ratio_cap);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.clips_ratio = true}; }
};

/// UP-GRPO (arXiv 2607.06987): A for positive advantages, for any ratio; else min(r, cap) A with the PPO mask.
struct UpGrpo {
  double low = 0.2, dual = 3, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("dual", dual, NumberRange::kAtLeastOne), visitor("ratio_cap", ratio_cap);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.clips_ratio = true}; }
};

/// IcePop as implemented in prime-rl: min(r, cap) A, blocked if r is outside [ratio_low, ratio_high].
struct IcePopDirect {
  double ratio_low = 0.2, ratio_high = 5, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("ratio_low", ratio_low, NumberRange::kNonNegative), visitor("ratio_high", ratio_high);
    visitor("ratio_cap", ratio_cap);
  }
  Requirements requirements() const { return {}; }
  RegionProperties properties() const { return {.clips_ratio = true}; }
  std::optional<InvalidParameter> check_parameters() const {
    return check_bounds("ratio_low", ratio_low, "ratio_high", ratio_high);
  }
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using RatioClipFamily = std::variant<PpoClip, RelaxedClip, Aspo, UpGrpo, IcePopDirect>;
std::vector<MethodRow<RatioClipFamily>> ratio_clip_rows();

}  // namespace keel
