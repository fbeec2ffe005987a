#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/tensor/rollout.h"
#include "keel/ops/sampler.h"

namespace keel {

constexpr int64_t kMaxSequences = 65535;  // rows of a kernel launch

/// Sampling parameters of one call of the engine.
struct SamplingRequest {
  int64_t samples_per_prompt = 1;
  double temperature = 1.0;
  double logit_noise = 0;      // standard deviation of the noise on each logit; part of the recorded policy mu
  SamplingFilter filter = {};  // truncates the distribution after the temperature
  int64_t max_new_tokens = 1;
  std::vector<int64_t> prompt_max_new_tokens = {};  // limit of each prompt; empty: max_new_tokens for all
  bool stop_at_eos = true;
  std::vector<int32_t> stop_ids = {};          // tokens that end a completion; empty: the tokenizer's EOS
  std::vector<std::string> stop_strings = {};  // the token that completes a stop string ends the completion, too
  uint64_t seed = 0;
  uint64_t policy_version = 0;   // recorded in every rollout
  int64_t max_sequences = 1024;  // decoded at a time, at most kMaxSequences
  int64_t top_k = 0;             // record this many most likely tokens at each position
  bool hidden_states = false;    // record the hidden state from which each token was sampled
  int64_t max_kept_bytes = 0;    // record the tokens that the filter keeps at each position, up to this memory
  int64_t kept_bytes = 0;        // that earlier requests of the step take
  std::string memory_hint =      // fix suggested by out-of-memory errors
      "lower rollout.max_sequences (sequences decoded together) or rollout.max_new_tokens";

  int64_t max_new_tokens_of(size_t prompt) const {
    return prompt_max_new_tokens.empty() ? max_new_tokens : prompt_max_new_tokens[prompt];
  }
};

struct RolloutProgress {
  int64_t finished = 0, total = 0;  // rollouts
  int64_t tokens = 0;               // sampled so far
};

/// Optional callbacks during sampling.
struct RolloutEvents {
  /// Called with the rollouts of one prompt when all of them are finished, while other prompts are still decoded.
  std::function<void(std::span<Rollout> group)> group = {};
  /// Called after every decode step.
  std::function<void(const RolloutProgress& progress)> progress = {};
  /// Called with a sentence when the engine deviates from the request.
  std::function<void(const std::string& sentence)> warning = {};
};

}  // namespace keel
