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
  bool stop_at_eos = true;
  std::vector<int32_t> stop_ids = {};          // tokens that end a completion; none: the tokenizer's eos
  std::vector<std::string> stop_strings = {};  // the token that completes one of them ends a completion as well
  uint64_t seed = 0;
  uint64_t policy_version = 0;   // recorded in every rollout
  int64_t max_sequences = 1024;  // decoded together
  int64_t top_k = 0;             // record this many of the likeliest tokens
  bool hidden_states = false;    // record the states that predicted each token
};

/// Called with the finished rollouts of one prompt as soon as they are all there, while others are still being decoded.
using OnGroup = std::function<void(std::span<Rollout> group)>;

}  // namespace keel
