#pragma once

#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

// Methods with a weight or mask per sequence. All tokens of a sequence share one advantage.

/// GSPO (arXiv 2507.18071): s A with s = exp(mean log r), and the PPO clip on s. The aggregation applies the 1/|y| of
/// the paper.
struct Gspo {
  double low = 3e-4, high = 4e-4;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("low", low), visitor("high", high), visitor("anchor", anchor); }
  Requirements requirements() const {
    return {.recomputed_logp = anchor == Anchor::kRecomputed, .scope = Scope::kSequence};
  }
  RegionProperties properties() const { return {.clips_ratio = true, .needs_sequence_advantage = true}; }
};

/// GMPO (arXiv 2507.20673): G A, where G is the geometric mean of ratios that are clipped above if A > 0, else below.
/// Clipped tokens are blocked. The bounds apply to log r.
struct Gmpo {
  double low = 0.4, high = 0.4;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("low", low), visitor("high", high), visitor("anchor", anchor); }
  Requirements requirements() const {
    return {.recomputed_logp = anchor == Anchor::kRecomputed, .scope = Scope::kSequence};
  }
  RegionProperties properties() const { return {.clips_ratio = true, .needs_sequence_advantage = true}; }
};

/// VESPO (arXiv 2602.10693): W^k exp(lambda (1 - W)) A, where W is the product of the ratios of the sequence.
struct Vespo {
  double k_positive = 2, lambda_positive = 3, k_negative = 3, lambda_negative = 2;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("k_positive", k_positive, NumberRange::kNonNegative),
        visitor("lambda_positive", lambda_positive, NumberRange::kNonNegative);
    visitor("k_negative", k_negative, NumberRange::kNonNegative),
        visitor("lambda_negative", lambda_negative, NumberRange::kNonNegative);
  }
  Requirements requirements() const { return {.scope = Scope::kSequence}; }
  RegionProperties properties() const { return {.needs_sequence_advantage = true, .has_boundary = false}; }
};

/// TOPR (arXiv 2503.14286): A for A >= 0, min(s, 1) A for A < 0; s is the ratio of the sequence, or its |y|-th root.
struct Topr {
  Switch length_normalized = Switch::kOn;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("length_normalized", length_normalized); }
  Requirements requirements() const { return {.scope = Scope::kSequence}; }
  RegionProperties properties() const { return {.needs_sequence_advantage = true, .has_boundary = false}; }
};

/// The mask of DeepSeek-V3.2: the PPO clip, plus whole sequences with A < 0 and mean log(mu/pi) > delta.
/// g = min(r, cap) A.
struct DsV32 {
  double low = 0.2, high = 0.28, delta = 0.05, ratio_cap = kUnlimited;
  Anchor anchor = Anchor::kBehavior;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("delta", delta), visitor("ratio_cap", ratio_cap);
    visitor("anchor", anchor);
  }
  Requirements requirements() const {
    return {.recomputed_logp = anchor == Anchor::kRecomputed, .scope = Scope::kSequence};
  }
  RegionProperties properties() const { return {.clips_ratio = true, .needs_sequence_advantage = true}; }
};

/// TRM (arXiv 2512.23075): r A; the sequence is blocked if its maximum divergence exceeds delta.
struct TrmMax {
  double delta = 0.05, k = kDefaultTopK;
  Divergence divergence = Divergence::kBinaryKl;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("delta", delta), visitor("k", k, NumberRange::kTopK), visitor("divergence", divergence);
  }
  Requirements requirements() const {
    return divergence_requirements(divergence, k, Anchor::kBehavior, Scope::kSequence);
  }
  RegionProperties properties() const { return {.tv_thresholds = if_total_variation(divergence, {"delta"})}; }
};

/// TrmMax with the mean divergence.
struct TrmAvg {
  double delta = 1e-3, k = kDefaultTopK;
  Divergence divergence = Divergence::kBinaryKl;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("delta", delta), visitor("k", k, NumberRange::kTopK), visitor("divergence", divergence);
  }
  Requirements requirements() const {
    return divergence_requirements(divergence, k, Anchor::kBehavior, Scope::kSequence);
  }
  RegionProperties properties() const { return {.tv_thresholds = if_total_variation(divergence, {"delta"})}; }
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using SequenceLevelFamily = std::variant<Gspo, Gmpo, Vespo, Topr, DsV32, TrmMax, TrmAvg>;
std::vector<MethodRow<SequenceLevelFamily>> sequence_level_rows();

}  // namespace keel
