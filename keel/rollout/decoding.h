#pragma once

#include <span>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/model/network/causal_lm.h"
#include "keel/rollout/cache/block_store.h"
#include "keel/rollout/request.h"
#include "keel/rollout/state_record.h"
#include "keel/rollout/stop_strings.h"
#include "keel/text/tokenizer/tokenizer.h"

namespace keel {

/// The rollouts of one request on their way. Who is decoded when is a function of the prompts and of what was drawn.
class Decoding {
 public:
  Decoding(const CausalLm& model, const Tokenizer& tokenizer, std::span<const Prompt> prompts,
           const SamplingRequest& request, std::span<Rollout> rollouts, const OnGroup& on_group);

  bool done() const { return running_.empty() && next_ == rollouts_.size(); }

  /// One token for every sequence: those that run, and those that start now.
  void step();

 private:
  /// One completion.
  struct Sequence {
    int64_t rollout, group;
    std::vector<int32_t> blocks = {};  // of its own tokens
  };

  /// The samples of one prompt.
  struct Group {
    int64_t waiting, unfinished;       // samples that have not begun; that have not ended
    std::vector<int32_t> blocks = {};  // of the prompt, while a sample needs them
    Tensor last_state = {};            // [1, H] of the prompt, while a sample waits for it
  };

  /// One token that was drawn.
  struct DrawnToken {
    int32_t token;
    float logp, other_logp, entropy;
  };

  /// Tokens of one forward pass.
  struct Tokens {
    std::vector<int64_t> tokens, positions;
    std::vector<BlockRow> rows;
    std::vector<int32_t> tables;

    int32_t add_table(const std::vector<int32_t>& blocks);
  };

  std::vector<int64_t> start_sequences();
  void add_prompt(int64_t group, Tokens& tokens);
  void add_newest_token(Sequence& sequence, Tokens& tokens);
  Tensor states_of_next_tokens(const std::vector<int64_t>& new_groups);
  void draw(const Tensor& states);
  bool record(const Sequence& sequence, const DrawnToken& drawn);
  void record_likeliest(const Tensor& logits);
  bool ends(int32_t token) const;
  void finish(const Sequence& sequence);
  std::span<const int32_t> prompt_of(int64_t group) const { return prompts_[group].tokens; }

  const CausalLm& model_;
  const Tokenizer& tokenizer_;
  std::span<const Prompt> prompts_;
  const SamplingRequest& request_;
  std::span<Rollout> rollouts_;
  const OnGroup& on_group_;
  StopStrings stop_strings_;

  size_t slots_;     // sequences that may run at a time
  size_t next_ = 0;  // the rollout that starts next
  std::vector<Group> groups_;
  std::vector<Sequence> running_;
  BlockStore store_;
  StateRecord states_;
};

}  // namespace keel
