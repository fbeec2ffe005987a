#pragma once

#include <span>
#include <string>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/model/network/sampling_model.h"
#include "keel/rollout/decoding.h"
#include "keel/rollout/request.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

class OptionTable;

/// Section `rollout` of a configuration.
struct RolloutOptions {
  int64_t samples_per_prompt = 8;
  double temperature = 1.0;
  SamplingFilter filter = {};  // top_k, top_p and min_p
  int64_t max_new_tokens = 0;
  std::vector<std::string> stop_strings = {};
  std::string weights = "exact";
  double logit_noise = 0;
  bool bitwise = false;
  int64_t kept_bytes_limit = 0;  // for tests; not a setting (keel/train/trainer.cpp)
  double mismatch_limit = 0;     // for tests; not a setting (keel/train/start/logprob_check.h)
  int64_t max_sequences = 1024;
  int64_t staleness = 0;
  bool dynamic_sampling = false;
  int64_t max_batches = 10;

  void describe(OptionTable& table);
};

/// Samples completions with continuous batching: sequences start in the order of the prompts as others end. A prompt is
/// prefilled once, and its samples share its keys and values. Rollout i of prompt p has the id p.id *
/// samples_per_prompt + i; its noise depends only on the seed, this id and the position. The SamplingModel shares the
/// memory of some weights and holds packed, fused or rounded copies of others: create a new engine after every update.
/// Borrows the tokenizer.
class RolloutEngine {
 public:
  RolloutEngine(SamplingModel model, const Tokenizer& tokenizer) : model_(std::move(model)), tokenizer_(tokenizer) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// Starts a request; Decoding::poll() advances it. The engine and the prompts must outlive the result.
  Decoding submit(std::span<const Prompt> prompts, const SamplingRequest& request) const;

  /// Returns rollouts in the order of the prompts, samples_per_prompt each. If a GPU runs out of memory, tries once
  /// more with half as many sequences together.
  std::vector<Rollout> generate(std::span<const Prompt> prompts, const SamplingRequest& request,
                                const RolloutEvents& events = {}) const;

 private:
  SamplingModel model_;
  const Tokenizer& tokenizer_;
};

}  // namespace keel
