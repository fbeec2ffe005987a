#pragma once

#include <optional>
#include <vector>

#include "keel/model/network/causal_lm.h"
#include "keel/model/network/value_head.h"

namespace keel {

/// What estimates the reward to come: a value head on the policy's own hidden states, or on those of a body of its own.
struct Critic {
  std::optional<CausalLm> body;  // none: the policy's
  ValueHead head;

  /// A new one for this policy: all values are 0. A body of its own is a copy of the policy's, without its LM head, and
  /// computes in the same type.
  static Critic of(const CausalLm& policy, bool own_body);

  /// Whose hidden states the head reads.
  const CausalLm& body_or(const CausalLm& policy) const { return body ? *body : policy; }

  /// The masters of everything that is trained.
  std::vector<NamedTensor> parameters() const { return masters_of(trainable()); }
  std::vector<NamedParameter> trainable() const;
};

}  // namespace keel
