#pragma once

#include <optional>
#include <vector>

#include "keel/model/network/causal_lm.h"
#include "keel/model/network/value_head.h"

namespace keel {

/// The critic of PPO: a value head on the hidden states of the policy or of a separate body.
struct Critic {
  std::optional<CausalLm> body;  // none: shared with the policy
  ValueHead head;

  /// Creates a critic whose values are all 0. A separate body is a copy of the policy's master weights (merged with the
  /// adapter, if any), without the LM head.
  static Critic create(const ModelWeights& policy, const MasterWeights& masters, bool own_body);

  const CausalLm& body_or(const CausalLm& policy) const { return body ? *body : policy; }

  /// Gives a separate body the compute type and execution options of the policy. Returns the master weights.
  MasterWeights match_compute_type(const CausalLm& policy);

  std::vector<NamedWeight> weights() const;
  /// Returns a copy with replaced weights, for saving only: it does not have the execution options of the critic.
  Critic with_replaced(const ModelWeights::Replacement& replacement) const;
};

}  // namespace keel
