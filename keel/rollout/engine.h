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

/// How completions are sampled; the section `rollout` of a configuration.
struct RolloutOptions {
  int64_t samples_per_prompt = 8;
  double temperature = 1.0;
  int64_t max_new_tokens = 0;
  std::vector<std::string> stop_strings = {};
  std::string weights = "exact";
  double logit_noise = 0;
  bool bitwise = false;
  double mismatch_limit = 0;  // not a setting: tests lower it (keel/train/start/logprob_check.h)
  int64_t max_sequences = 1024;
  int64_t staleness = 0;
  bool dynamic_sampling = false;
  int64_t max_batches = 10;

  void describe(OptionTable& table);
};

/// Samples completions. Sequences start in the order of the prompts as soon as others end; a prompt is computed once
/// for all its samples, which share its keys and values. Rollout i of prompt p has the id p.id * samples_per_prompt +
/// i, and its noise depends on the seed, that id and the position alone. Owns a
/// SamplingModel, which shares some weights' memory and holds packed, joined or rounded copies of others: make a new
/// engine after every update. Borrows the tokenizer.
class RolloutEngine {
 public:
  RolloutEngine(SamplingModel model, const Tokenizer& tokenizer) : model_(std::move(model)), tokenizer_(tokenizer) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// The rollouts of a request on their way, which poll() moves on; the engine and the prompts must outlive them.
  Decoding submit(std::span<const Prompt> prompts, const SamplingRequest& request) const;

  /// Rollouts in the order of the prompts, samples_per_prompt each. Where a GPU's memory does not suffice, half as many
  /// sequences are tried together, once.
  std::vector<Rollout> generate(std::span<const Prompt> prompts, const SamplingRequest& request,
                                const RolloutEvents& events = {}) const;

 private:
  SamplingModel model_;
  const Tokenizer& tokenizer_;
};

}  // namespace keel
