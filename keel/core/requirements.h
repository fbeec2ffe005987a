#pragma once

#include <cstdint>

namespace keel {

/// How much a token's coefficient depends on: its own numbers, those of its sequence, or those of the whole update.
enum class Scope { kToken, kSequence, kBatch };

/// What a method needs to know about each token beyond log pi, log mu and the advantage. Declared by the method's
/// region; the rollout engine, the annotations and the head read it, and nothing else knows which method runs.
struct Requirements {
  int64_t top_k = 0;             // the sampler's K largest log-probs
  bool hidden_states = false;    // the sampler's hidden states, for exact divergences
  bool exact_kl = false;         // of the exact divergences, KL(mu || pi) and not the total variation
  bool recomputed_logp = false;  // the trainer's log-prob at the sampling weights
  bool reference_logp = false;   // the frozen reference model's log-prob
  bool value = false;            // a critic's estimate, for the advantage
  Scope scope = Scope::kToken;
};

}  // namespace keel
