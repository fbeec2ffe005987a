#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/tensor/rollout.h"
#include "keel/ops/sampler.h"

namespace keel {

/// What one call of the engine is asked for.
struct SamplingRequest {
  int64_t samples_per_prompt = 1;
  double temperature = 1.0;
  double logit_noise = 0;  // deviation of the noise on every logit that is sampled from, and recorded as sampled from
  Truncation truncation = {};  // of the support: for evaluations, never for training
  int64_t max_new_tokens = 1;
  std::vector<int64_t> prompt_max_new_tokens = {};  // most new tokens by prompt; none: max_new_tokens for all
  bool stop_at_eos = true;
  std::vector<int32_t> stop_ids = {};          // tokens that end a completion; none: the tokenizer's eos
  std::vector<std::string> stop_strings = {};  // the token that completes one of them ends a completion as well
  uint64_t seed = 0;
  uint64_t policy_version = 0;   // recorded in every rollout
  int64_t max_sequences = 1024;  // decoded together
  int64_t top_k = 0;             // record this many of the likeliest tokens
  bool hidden_states = false;    // record the states that predicted each token
  std::string memory_hint =      // said where memory does not suffice
      "lower rollout.max_sequences (sequences decoded together) or rollout.max_new_tokens";

  /// Most new tokens of a completion of the prompt at this place.
  int64_t max_new_tokens_of(size_t prompt) const {
    return prompt_max_new_tokens.empty() ? max_new_tokens : prompt_max_new_tokens[prompt];
  }
};

/// How far the rollouts of a request are.
struct RolloutProgress {
  int64_t finished = 0, total = 0;  // rollouts
  int64_t tokens = 0;               // that were drawn
};

/// Told what happens while rollouts are sampled. What is empty is not told.
struct RolloutEvents {
  /// The finished rollouts of one prompt, as soon as they are all there, while others are still being decoded.
  std::function<void(std::span<Rollout> group)> group = {};
  /// After every token of the sequences that run.
  std::function<void(const RolloutProgress& progress)> progress = {};
  /// Something was done differently from what was asked for; a sentence.
  std::function<void(const std::string& sentence)> warning = {};
};

}  // namespace keel
