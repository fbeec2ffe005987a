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
  SkippedCounts skipped;                       // rows skipped before the last prompt
  std::string prompt_limit;                    // "data.max_prompt_tokens, 64"
  uint64_t rows = 0;                           // of data.eval_files, or 0
  uint64_t remaining_rows = 0;                 // after the last prompt, in eval_files or in data.files
  std::vector<std::string> unused_files = {};  // eval_files without any prompt here

  int64_t longest_prompt() const;  // in tokens
  /// "2 prompts skipped: longer than data.max_prompt_tokens, 64; ...", or empty.
  std::string note() const;

  /// "512 of 602 rows (eval.prompts, 3 too long); none of hard.jsonl", or "30 problems in 960 rows" if rows repeat;
  /// empty if all rows are used and differ.
  std::string extent() const;
};

/// Tokens of prompts.
struct PromptLengths {
  int64_t longest = 0;
  double mean = 0;
};

/// The prompts of a run and the reward of their completions, from the user's files and reward functions or from a
/// built-in task.
class PromptSources {
 public:
  /// Prompts are rendered and tokenized for `policy`.
  PromptSources(const Config& config, const LoadedModel& policy);

  /// Returns an empty object if the run has no RL phase; its prompts and reward must not be used.
  static PromptSources for_run(const Config& config, const LoadedModel& policy);

  /// Uses the given prompts and reward, without held-out prompts.
  PromptSources(PromptStream training, RewardSum reward);

  /// The endless training stream at its beginning. Copy it to read; RlState::prompt_position is the run's position.
  const PromptStream& training() const { return *training_; }

  /// Fails if the files have no usable training prompt.
  void require_prompt() const { PromptStream(*training_).next(1); }

  /// Returns at most the first `count` held-out prompts, the same at every call. Fails if there are rows and all of
  /// them are skipped.
  HeldOutPrompts held_out(int64_t count);

  /// Returns whether there are held-out prompts.
  bool has_held_out() const { return held_out_.has_value(); }

  const RewardSum& reward() const { return *reward_; }

  /// The range of possible rewards, if known.
  std::optional<RewardRange> reward_range() const;

  /// The built-in task, or null with files.
  const Task* task() const { return task_.get(); }

  /// Messages to print: how the files are read, and the arguments of the chat template.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Warnings to print, such as reward functions for sources without rows.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Identifies the files; a resumed run needs the same ones.
  const DataIdentity& data() const { return data_; }

  /// The number of evaluation rows whose prompts are training prompts too; 0 if data.bad_rows reads rows late.
  uint64_t eval_rows_in_training() const { return eval_rows_in_training_; }

  /// The number of prompts in one epoch over the training files. Reads all rows, once.
  uint64_t prompts_per_epoch() const;

  /// The maximum number of tokens of a prompt from files; longer ones are skipped.
  int64_t prompt_limit() const { return prompt_limit_; }
  /// The lengths of the first training prompts: at most 1,000, and those before an unreadable row.
  PromptLengths lengths() const;
  /// "2 prompts skipped: longer than data.max_prompt_tokens, 64", or empty.
  std::string describe_skipped(const SkippedCounts& skipped) const;

 private:
  PromptSources() = default;
  void open_files(const Config& config, const LoadedModel& policy);
  void open_task(const Config& config, const LoadedModel& policy);

  std::shared_ptr<const Task> task_;
  std::optional<PromptStream> training_, held_out_;
  std::shared_ptr<const RewardSum> reward_;
  bool task_is_reward_ = false;  // Task::check() is the whole reward
  std::vector<std::string> notes_, warnings_;
  DataIdentity data_;
  std::shared_ptr<const Dataset> eval_files_;
  uint64_t eval_rows_in_training_ = 0;
  mutable std::optional<uint64_t> prompts_per_epoch_;
  int64_t prompt_limit_ = 0;
  std::string limit_name_;
};

/// Tokenizes a prompt, through the chat template if the model has one.
std::vector<int32_t> prompt_tokens(const LoadedModel& policy, const std::string& text,
                                   const TemplateVariables& variables);

/// "2 rows skipped: longer than sft.max_tokens, 64", with `items` for rows; empty if nothing was skipped.
std::string skipped_rows_text(const SkippedCounts& skipped, const std::string& items, const std::string& limit);

}  // namespace keel
