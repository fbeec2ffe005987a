#pragma once

#include <cstdint>

namespace keel {

/// The inputs of a token's coefficient: the token, its sequence, or the whole update.
enum class Scope { kToken, kSequence, kBatch };

/// The per-token inputs of a method in addition to log pi, log mu and the advantage. The method's trust region declares
/// them. The rollout engine, the annotations and the head read only this and do not know the method.
struct Requirements {
  int64_t top_k = 0;             // the sampler's K largest log-probs
  bool hidden_states = false;    // the sampler's hidden states, for exact divergences
  bool exact_kl = false;         // the exact divergence is KL(mu || pi), not the total variation
  bool recomputed_logp = false;  // the trainer's log-prob under the sampling weights
  bool reference_logp = false;   // the frozen reference model's log-prob
  bool value = false;            // a critic's estimate, for the advantage
  Scope scope = Scope::kToken;
};

}  // namespace keel
