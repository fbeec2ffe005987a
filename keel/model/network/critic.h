#pragma once

#include <optional>
#include <vector>

#include "keel/model/network/causal_lm.h"
#include "keel/model/network/value_head.h"

namespace keel {

/// Estimates the reward to come: a value head on the policy's own hidden states, or on those of a body of its own.
struct Critic {
  std::optional<CausalLm> body;  // none: the policy's
  ValueHead head;

  /// A new one for this policy: all values are 0. A body of its own is a copy of the policy's masters (of the
  /// merged weights, if there is an adapter), without the LM head.
  static Critic create(const ModelWeights& policy, const MasterWeights& masters, bool own_body);

  /// The body's hidden states are what the head reads.
  const CausalLm& body_or(const CausalLm& policy) const { return body ? *body : policy; }

  /// Rounds a body to the policy's compute type, to be computed as the policy is. Returns the masters of all weights.
  MasterWeights match_compute_type(const CausalLm& policy);

  std::vector<NamedWeight> weights() const;
  /// With a replacement for each weight, to be saved: float32 weights may not be computed as the critic is.
  Critic with_replaced(const ModelWeights::Replacement& replacement) const;
};

}  // namespace keel
