#pragma once

#include <functional>
#include <limits>
#include <string_view>
#include <variant>

#include "keel/core/requirements.h"
#include "keel/core/tensor.h"

namespace keel {

/// What a trust region judges, one entry per token, flat; all [N] of one float type.
struct TokenPolicy {
  Tensor logp;           // log pi of the sampled token under the policy being trained
  Tensor behavior_logp;  // log mu, as the sampler recorded it
  Tensor advantages;
};

/// What was decided about each token; nothing here carries a gradient.
struct TokenDecision {
  Tensor coefficient;  // [N] g: the ascent direction is the sum of g grad log pi, before aggregation
  Tensor keep;         // [N] bool: false where the hard mask blocks the token
  Tensor divergence;   // [N] what the region measured; may be infinite
  Tensor threshold;    // [N] what the divergence was held against
};

/// Called with the name and the value of each of a region's parameters.
using ParameterVisitor = std::function<void(std::string_view name, double& value)>;

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The regions. Each is a set of parameters, a function from tokens to decisions, and what it needs to be told. Their
// maths and their rows in the table of methods stand together, one .cpp per family.

/// No region: the importance-weighted policy gradient, g = min(r, cap) A. A finite cap is truncated importance
/// sampling.
struct PolicyGradient {
  double ratio_cap = kUnlimited;
  TokenDecision operator()(const TokenPolicy& policy) const;
  void visit(const ParameterVisitor& visitor) { visitor("ratio_cap", ratio_cap); }
  Requirements requirements() const { return {}; }
};

/// PPO's ratio clip (arXiv 1707.06347): r A, blocked when A > 0 and r > 1 + high, or A < 0 and r < 1 - low.
struct PpoClip {
  double low = 0.2, high = 0.2;
  TokenDecision operator()(const TokenPolicy& policy) const;
  void visit(const ParameterVisitor& visitor) { visitor("low", low), visitor("high", high); }
  Requirements requirements() const { return {}; }
};

/// DPPO (arXiv 2602.04879, eq. 12 to 14) with the total variation of "this token or another": min(r, cap) A, blocked
/// when the update leads away from mu, A (pi - mu) > 0, and |pi - mu| is above `high` (A > 0) or `low` (A < 0).
struct DppoBinaryTv {
  double low = 0.15, high = 0.15, ratio_cap = kUnlimited;
  TokenDecision operator()(const TokenPolicy& policy) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("ratio_cap", ratio_cap);
  }
  Requirements requirements() const { return {}; }
};

/// The same with the divergence KL(mu || pi) of "this token or another".
struct DppoBinaryKl {
  double low = 0.05, high = 0.05, ratio_cap = kUnlimited;
  TokenDecision operator()(const TokenPolicy& policy) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("low", low), visitor("high", high), visitor("ratio_cap", ratio_cap);
  }
  Requirements requirements() const { return {}; }
};

using TrustRegion = std::variant<PolicyGradient, PpoClip, DppoBinaryTv, DppoBinaryKl>;

/// The coefficient that multiplies grad log pi, and why, for every token.
TokenDecision token_coefficients(const TrustRegion& region, const TokenPolicy& policy);

/// For the regions' own use: min(r, cap) A where not blocked, 0 where blocked.
TokenDecision hard_mask(const TokenPolicy& policy, const Tensor& blocked, double ratio_cap, const Tensor& divergence,
                        const Tensor& threshold);

/// For the regions' own use: `positive` where A > 0, `otherwise` elsewhere.
Tensor by_sign(const Tensor& advantages, double positive, double otherwise);

}  // namespace keel
