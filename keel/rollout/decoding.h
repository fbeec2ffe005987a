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

/// Generates the rollouts of one request with continuous batching. The schedule depends only on the prompts and the
/// sampled tokens. Owns the rollouts, the decode step and a copy of the request; borrows the model, the tokenizer and
/// the prompts.
class Decoding {
 public:
  /// Allocates the KV cache and computes nothing yet. Empty `request.stop_ids` are not replaced by the tokenizer's EOS
  /// here: RolloutEngine::submit() does that.
  Decoding(const SamplingModel& model, const Tokenizer& tokenizer, std::span<const Prompt> prompts,
           const SamplingRequest& request);
  Decoding(const Decoding&) = delete;

  /// Maximum size of the request's KV cache.
  static int64_t kv_cache_bytes(const SamplingModel& model, std::span<const Prompt> prompts,
                                const SamplingRequest& request);

  bool done() const { return progress_.finished == progress_.total; }
  const RolloutProgress& progress() const { return progress_; }

  /// Runs one decode step; new sequences replace finished ones first. Returns the groups that became complete.
  std::vector<std::span<Rollout>> poll();

  /// All rollouts, finished or not, in the order of take().
  const std::vector<Rollout>& rollouts() const { return rollouts_; }

  /// Moves the rollouts out, in the order of the prompts, samples_per_prompt each. Call it once, when done.
  std::vector<Rollout> take() { return std::move(rollouts_); }

 private:
  /// A completion that is being decoded.
  struct Sequence {
    int64_t rollout, group;
    std::vector<int32_t> blocks;  // for the completion's keys and values
    bool ended = false;
  };

  /// The samples of one prompt.
  struct Group {
    int64_t waiting, unfinished;       // samples that have not started; samples that have not ended
    std::vector<int32_t> blocks = {};  // of the prompt, while a sample needs them
    Tensor last_state = {};            // [1, H] last hidden state of the prompt, until all samples have started
  };

  void refill_batch();
  std::vector<int64_t> start_sequences();
  void prefill(const std::vector<int64_t>& groups);
  void sample_first_tokens();
  void record(const SampledTokens& sampled);
  void record(Sequence& sequence, const SampledTokens& sampled, int64_t row);
  void record_kept_tokens(KeptTokens& kept, const int32_t* bitmaps, int64_t row);
  void finish(Sequence& sequence);
  void remove_ended() {
    std::erase_if(batch_, [](const Sequence& sequence) { return sequence.ended; });
  }
  int64_t count_active() const { return std::ranges::count(batch_, false, &Sequence::ended); }
  bool can_start() const { return batch_.size() < max_batch_size_ && next_ < rollouts_.size(); }
  std::span<const int32_t> prompt_of(int64_t group) const { return prompts_[group].tokens; }

  const SamplingModel& model_;
  const Tokenizer& tokenizer_;
  std::span<const Prompt> prompts_;
  SamplingRequest request_;
  StopStrings stop_strings_;

  size_t max_batch_size_;
  size_t next_ = 0;  // rollout that starts next
  std::vector<Rollout> rollouts_;
  std::vector<Group> groups_;
  std::vector<Sequence> batch_;    // one row each, in order of their start
  std::vector<int64_t> complete_;  // groups completed since the last poll()
  RolloutProgress progress_;
  DecodeStep step_;
};

}  // namespace keel
