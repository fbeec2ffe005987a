#pragma once

#include <cstdint>
#include <vector>

#include "keel/data/row_prompt.h"
#include "keel/data/schema.h"

namespace keel {

/// Tokens with their loss mask.
struct SupervisedSequence {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> trained;  // loss mask; always 0 for the first token, which has no prediction

  int64_t trained_count() const;
};

/// The sequences of a row: one, or one per assistant turn if the chat template rewrites earlier turns.
struct SupervisedRow {
  std::vector<SupervisedSequence> sequences;

  size_t max_length() const;
};

/// Tokens with a loss: assistant messages; the completion (all tokens without a completion, as in TRL); all tokens. A
/// plain text always has a loss on all tokens.
enum class LossOn { kAssistant, kCompletion, kAll };

/// Converts rows to training sequences.
class SupervisedRows {
 public:
  /// `stop_ids` end a completion; the first is appended to text completions.
  SupervisedRows(RowPrompts prompts, std::vector<int32_t> stop_ids, LossOn loss_on)
      : prompts_(std::move(prompts)), stop_ids_(std::move(stop_ids)), loss_on_(loss_on) {}

  /// Converts one example. Each trained turn follows exactly the prompt tokens that generation would use and ends with
  /// the first stop token; what the template writes after it is dropped. Throws BadRow if no token has a loss.
  SupervisedRow row(const Example& example) const;

  const RowPrompts& prompts() const { return prompts_; }

 private:
  SupervisedSequence encode_text(const Example& example) const;
  SupervisedSequence encode_text_pair(const Example& example) const;
  SupervisedSequence encode_conversation(const Json& messages, const Example& example) const;
  SupervisedSequence encode_completion(const Json& messages, size_t first, const Example& example) const;
  /// Trains on the assistant messages from `first` on. The first `added` messages are not from the row.
  std::vector<SupervisedSequence> encode_turns(const Json& messages, size_t first, size_t added,
                                               const Example& example) const;
  void require_rendered(const Json& messages, const Example& example) const;
  void check_loss_marks(const Json& messages, size_t first, size_t added, const std::string& place) const;
  bool is_stop(int32_t token) const;

  RowPrompts prompts_;
  std::vector<int32_t> stop_ids_;
  LossOn loss_on_;
};

}  // namespace keel
