#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/philox.h"
#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/model/network/causal_lm.h"
#include "keel/text/tokenizer/tokenizer.h"

namespace keel {

class OptionTable;

/// How completions are sampled; the section `rollout` of a configuration.
struct RolloutOptions {
  int64_t samples_per_prompt = 8;
  double temperature = 1.0;
  int64_t max_new_tokens = 0;
  std::string weights = "exact";
  int64_t max_sequences = 1024;

  void describe(OptionTable& table);
};

/// What one call of the engine is asked for.
struct SamplingRequest {
  int64_t samples_per_prompt = 1;
  double temperature = 1.0;
  double top_p = 1.0;      // below 1 it truncates the support: for evaluations, never for training
  int64_t only_top_k = 0;  // above 0 it does so too: only this many of the likeliest tokens can be drawn
  int64_t max_new_tokens = 1;
  bool stop_at_eos = true;
  std::vector<int32_t> stop_ids = {};  // tokens that end a completion; none: the tokenizer's eos
  uint64_t seed = 0;
  uint64_t policy_version = 0;   // recorded in every rollout
  int64_t max_sequences = 1024;  // decoded together
  int64_t top_k = 0;             // record this many of the likeliest tokens
  bool hidden_states = false;    // record the states that predicted each token
};

/// Called with the finished rollouts of one prompt as soon as they are all there, while others are still being decoded.
using OnGroup = std::function<void(std::span<Rollout> group)>;

/// Samples completions with a key-value cache. Rollout i of prompt p has the id p.id * samples_per_prompt + i, and its
/// noise depends on the seed, that id and the position alone.
class RolloutEngine {
 public:
  RolloutEngine(const CausalLm& weights, const Tokenizer& tokenizer)
      : model_(weights.for_sampling()), tokenizer_(tokenizer) {}

  /// Rollouts in the order of the prompts, samples_per_prompt each.
  std::vector<Rollout> generate(std::span<const Prompt> prompts, const SamplingRequest& request,
                                const OnGroup& on_group = {}) const;

 private:
  void decode(std::span<const Prompt> prompts, const SamplingRequest& request, std::span<Rollout> rollouts,
              const OnGroup& on_group) const;

  CausalLm model_;
  const Tokenizer& tokenizer_;
};

}  // namespace keel
