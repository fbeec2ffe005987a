#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/data_identity.h"
#include "keel/core/reward_range.h"
#include "keel/data/dataset.h"
#include "keel/data/prompt_stream.h"
#include "keel/model/loaded_model.h"
#include "keel/reward/reward_options.h"
#include "keel/task/task.h"
#include "keel/train/config/config.h"

namespace keel {

/// Prompts to evaluate on.
struct HeldOutPrompts {
  std::vector<Prompt> prompts;
  SkippedCounts skipped;                       // rows that were passed over on the way to them
  std::string prompt_limit;                    // what the too long ones are longer than: "data.max_prompt_tokens, 64"
  uint64_t rows = 0;                           // of data.eval_files; 0: there are none
  uint64_t remaining_rows = 0;                 // the last prompt, in those or, with data.held_out, in data.files
  std::vector<std::string> unused_files = {};  // of which all rows do

  /// "2 prompts left out: longer than data.max_prompt_tokens, 64; ..."; empty where none was.
  std::string note() const;

  /// "512 of 602 rows (eval.prompts, 3 too long); none of hard.jsonl", "30 problems in 960 rows" where rows repeat
  /// them; empty where it is all of them and each once.
  std::string extent() const;
};

/// The prompts of a run and the rewards of completions: from the user's files and reward functions, or from a built-in
/// task. It owns all of them and borrows nothing.
class PromptSources {
 public:
  /// The policy's tokenizer and chat template write the prompts.
  PromptSources(const Config& config, const LoadedModel& policy);

  /// Nothing where the run has no RL: then nobody may ask for prompts or rewards.
  static PromptSources for_run(const Config& config, const LoadedModel& policy);

  /// Of one's own making: prompts, and what their completions are worth. Nothing is kept for evaluation.
  PromptSources(PromptStream training, RewardSum reward);

  /// Endless, at its beginning: a reader copies it and moves the copy. The run's position is RlState::prompts.
  const PromptStream& training() const { return *training_; }

  /// Files without a single prompt to train on are refused.
  void require_prompt() const { PromptStream(*training_).next(1); }

  /// The first `count` problems that are kept for evaluation, the same at every call; fewer where there are not so
  /// many. An Error where there are rows and all of them are left out.
  HeldOutPrompts held_out(int64_t count);

  /// Whether problems are kept for evaluation at all.
  bool has_held_out() const { return held_out_.has_value(); }

  const RewardSum& reward() const { return *reward_; }

  /// What reward a completion can get, where that is known.
  std::optional<RewardRange> reward_range() const;

  /// The built-in task; null with files.
  const Task* task() const { return task_.get(); }

  /// Sentences to print: how the files were read, and what the chat template is told.
  const std::vector<std::string>& notes() const { return notes_; }
  /// And what is odd: functions for sources that there are not.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// A run is resumed on the same files, unless the user accepts changed ones.
  const DataIdentity& data() const { return data_; }

  /// Rows of the files to evaluate on whose prompts are trained on; where rows are read late, 0.
  uint64_t eval_rows_in_training() const { return eval_rows_in_training_; }

  /// How many prompts one pass over the training files gives; reads them all, once.
  uint64_t prompts_per_epoch() const;

  /// Longer prompts of files are left out; in tokens.
  int64_t prompt_limit() const { return prompt_limit_; }
  /// Tokens of the longest prompt that there may be: that limit, or the longest among the first problems of a task.
  int64_t longest_prompt() const { return longest_prompt_; }
  /// "2 prompts left out: longer than data.max_prompt_tokens, 64"; empty where there are none.
  std::string describe_skipped(const SkippedCounts& skipped) const;

 private:
  PromptSources() = default;
  void open_files(const Config& config, const LoadedModel& policy);
  void open_task(const Config& config, const LoadedModel& policy);

  std::shared_ptr<const Task> task_;
  std::optional<PromptStream> training_, held_out_;
  std::shared_ptr<const RewardSum> reward_;
  bool task_alone_ = false;  // its check is the whole reward
  std::vector<std::string> notes_, warnings_;
  DataIdentity data_;
  std::shared_ptr<const Dataset> eval_files_;
  uint64_t eval_rows_in_training_ = 0;
  mutable std::optional<uint64_t> prompts_per_epoch_;
  int64_t prompt_limit_ = 0, longest_prompt_ = 0;
  std::string limit_name_;
};

/// A question in the model's own tokens: through its chat template where it has one, which is told these words.
std::vector<int32_t> prompt_tokens(const LoadedModel& policy, const std::string& text, const TemplateVariables& words);

/// "2 rows left out: longer than sft.max_tokens, 64" of these `items`; empty where there are none.
std::string skipped_rows_text(const SkippedCounts& skipped, const std::string& items, const std::string& limit);

}  // namespace keel
