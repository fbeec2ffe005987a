#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/model/network/sampling_model.h"
#include "keel/rollout/decode_step.h"
#include "keel/rollout/request.h"
#include "keel/rollout/stop_strings.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// The rollouts of one request on their way: who is decoded when, a function of the prompts and of what was drawn. Owns
/// the rollouts, the decode step and a copy of the request; borrows the model, the tokenizer and the prompts.
class Decoding {
 public:
  /// Plans the memory of keys and values; nothing is computed yet. Completions end with the request's stop_ids alone.
  Decoding(const SamplingModel& model, const Tokenizer& tokenizer, std::span<const Prompt> prompts,
           const SamplingRequest& request);
  Decoding(const Decoding&) = delete;

  /// Memory of the keys and values of the sequences that run together, at the most.
  static int64_t kv_cache_bytes(const SamplingModel& model, std::span<const Prompt> prompts,
                                const SamplingRequest& request);

  bool done() const { return progress_.finished == progress_.total; }
  const RolloutProgress& progress() const { return progress_; }

  /// A token more for every sequence that runs, and new ones in the place of those that have ended. Returns the groups
  /// of rollouts that are complete since.
  std::vector<std::span<Rollout>> poll();

  /// As far as they are, in the same order.
  const std::vector<Rollout>& rollouts() const { return rollouts_; }

  /// In the order of the prompts, samples_per_prompt each. Once, when all are done.
  std::vector<Rollout> take() { return std::move(rollouts_); }

 private:
  /// One completion on its way.
  struct Sequence {
    int64_t rollout, group;
    std::vector<int32_t> blocks;  // room for its own tokens
    bool ended = false;
  };

  /// The samples of one prompt.
  struct Group {
    int64_t waiting, unfinished;       // samples that have not begun; that have not ended
    std::vector<int32_t> blocks = {};  // of the prompt, while a sample needs them
    Tensor last_state = {};            // [1, H] of the prompt, while a sample waits for it
  };

  void arrange();
  std::vector<int64_t> start_sequences();
  void compute_prompts(const std::vector<int64_t>& groups);
  void draw_first_tokens();
  void record(const SampledTokens& drawn);
  void record(Sequence& sequence, const SampledTokens& drawn, int64_t row);
  void finish(Sequence& sequence);
  void drop_ended() {
    std::erase_if(running_, [](const Sequence& sequence) { return sequence.ended; });
  }
  int64_t live() const { return std::ranges::count(running_, false, &Sequence::ended); }
  std::span<const int32_t> prompt_of(int64_t group) const { return prompts_[group].tokens; }

  const SamplingModel& model_;
  const Tokenizer& tokenizer_;
  std::span<const Prompt> prompts_;
  SamplingRequest request_;
  StopStrings stop_strings_;

  size_t slots_;     // sequences that may run at a time
  size_t next_ = 0;  // the rollout that starts next
  std::vector<Rollout> rollouts_;
  std::vector<Group> groups_;
  std::vector<Sequence> running_;  // a row each, in the order in which they began
  std::vector<int64_t> complete_;  // groups, since the last poll()
  RolloutProgress progress_;
  DecodeStep step_;
};

}  // namespace keel
