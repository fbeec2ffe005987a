#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// What ended a completion: a stop token, a stop string, or the longest length.
enum class Finish { kStop, kStopString, kLength };

/// As in OpenAI's, vLLM's and transformers' answers, which do not tell a token from a string.
inline const char* finish_name(Finish finish) { return finish == Finish::kLength ? "length" : "stop"; }

/// One sampled completion, with what was known about each of its tokens when it was sampled.
struct Rollout {
  uint64_t id = 0;                         // keys the sampling noise: the same id draws the same noise in any batch
  int64_t prompt = 0;                      // index into the step's prompts; rollouts of one prompt form a group
  std::vector<int32_t> tokens;             // [T] the completion, its stop token included
  std::vector<float> behavior_logp;        // [T] log mu of each token, of the tempered distribution it was drawn from
  std::vector<float> behavior_other_logp;  // [T] log(1 - mu), from the logits: exact where log mu rounds to 0
  std::vector<float> behavior_entropy;     // [T] of that distribution
  std::string text;                        // the completion without its stop token, or before its stop string
  Finish finish = Finish::kStop;
  uint64_t policy_version = 0;  // number of updates the sampling weights had seen
  double reward = 0;
  bool judged = true;  // else nobody could say what it is worth, and it has no part in statistics and updates

  // Only what the method's Requirements ask for.
  std::vector<int64_t> topk_ids;          // [T * K] the sampler's K likeliest tokens at each position, likeliest first
  std::vector<float> topk_behavior_logp;  // [T * K] their log mu
  Tensor hidden_states;                   // [T, H] the sampler's states that predicted each token
  std::vector<float> recomputed_logp;     // [T] the trainer's log-probability at the sampling parameters
  std::vector<float> recomputed_other_logp;  // [T] log(1 - p) of the same
  std::vector<float> reference_logp;         // [T] the reference policy's log-probability
  std::vector<float> values;                 // [T] the critic's value of the state before each token
};

}  // namespace keel
