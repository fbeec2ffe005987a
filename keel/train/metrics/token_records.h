#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/record/tokens/token_file.h"
#include "keel/train/update/policy_update.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Which completions of a step are recorded.
struct RecordSelection {
  std::optional<int64_t> rollouts = {};  // so many, drawn; nothing: all
  uint64_t seed = 0;                     // of the draw, with the step
};

/// The decisions on all tokens of a step's completions, or of a sample of whole completions, in every update, for
/// RUN/tokens. Rows are written as they come, some thousands at a time. What goes wrong with that is kept for commit():
/// a step that is half learned must not end for it. It owns the open file; it borrows the step's rollouts and the tokenizer.
class TokenRecords {
 public:
  /// Creates `folder`. `places` are the indices of the trained rollouts. The arguments must outlive the records.
  TokenRecords(std::filesystem::path folder, int64_t step, std::span<const Prompt> prompts,
               std::span<const Rollout> rollouts, std::span<const std::optional<int64_t>> places,
               const RecordSelection& share, const Tokenizer& tokenizer);

  /// Notes the decisions on a part of an update's tokens; `rollouts[s]` is the rollout of sequence s.
  void add(const TokenUpdate& tokens, std::span<const int64_t> rollouts);

  /// All tokens of an update were told.
  void end_update() { update_++; }

  /// All updates were; the file appears. `facts` hold for the step; how much of it was recorded is added, and the
  /// texts of its prompts.
  void commit(Json facts);

 private:
  Json prompts() const;
  const std::string& text_of(int64_t rollout, int64_t position);
  void add_row(int64_t rollout, int64_t target, int64_t position, TokenRow row);
  void write_rows();

  std::filesystem::path folder_;
  int64_t step_;
  std::span<const Prompt> prompts_;
  std::span<const Rollout> rollouts_;
  const Tokenizer& tokenizer_;
  std::vector<bool> recorded_;  // of the rollouts
  int64_t learned_from_ = 0;    // rollouts
  std::unique_ptr<TokenFile> file_;
  std::exception_ptr failure_;
  std::vector<TokenRow> rows_;      // that are not written yet
  int64_t rollout_of_texts_ = -1;   // the last one
  std::vector<std::string> texts_;  // of its tokens
  int64_t update_ = 0;
  int64_t written_ = 0;  // rows
};

}  // namespace keel
