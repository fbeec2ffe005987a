#pragma once

#include <cstdint>
#include <vector>

#include "keel/data/row_prompt.h"
#include "keel/data/schema.h"

namespace keel {

/// Tokens, and which of them are to be learned.
struct SupervisedSequence {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> trained;  // 1 or 0 for each; the first, which nothing predicts, never is

  int64_t trained_count() const;
};

/// What a row is to teach: one sequence, or one for each of the assistant's turns where the chat template rewrites
/// earlier ones.
struct SupervisedRow {
  std::vector<SupervisedSequence> sequences;

  size_t longest() const;
};

/// Which tokens are learned: what the assistant says; what stands behind the prompt, and all where a row has none, as
/// in TRL; all. A text that is no prompt is always learned whole.
enum class LossOn { kAssistant, kCompletion, kAll };

/// Rows to what a model learns.
class SupervisedRows {
 public:
  /// `stop_ids` end what the model says; a completion that is a text gets the first of them behind it.
  SupervisedRows(RowPrompts prompts, std::vector<int32_t> stop_ids, LossOn loss_on)
      : prompts_(std::move(prompts)), stop_ids_(std::move(stop_ids)), loss_on_(loss_on) {}

  /// Of an example of kSupervisedRows. What the model learns to say stands behind exactly those tokens that it is given
  /// when it is to say it, and ends with the first stop token: what the template writes behind that, it never says. A
  /// BadRow where there is nothing to learn.
  SupervisedRow row(const Example& example) const;

  const RowPrompts& prompts() const { return prompts_; }

 private:
  SupervisedSequence of_text(const Example& example) const;
  SupervisedSequence of_texts(const Example& example) const;
  SupervisedSequence of_whole(const Json& messages, const Example& example) const;
  SupervisedSequence of_completion(const Json& messages, size_t first, const Example& example) const;
  /// Learned from is what the assistant says from message `first` on; the row has not the `added` ones at the front.
  std::vector<SupervisedSequence> of_turns(const Json& messages, size_t first, size_t added,
                                           const Example& example) const;
  void refuse_unseen(const Json& messages, const Example& example) const;
  void refuse_other_marks(const Json& messages, size_t first, size_t added, const std::string& place) const;
  bool is_stop(int32_t token) const;

  RowPrompts prompts_;
  std::vector<int32_t> stop_ids_;
  LossOn loss_on_;
};

}  // namespace keel
