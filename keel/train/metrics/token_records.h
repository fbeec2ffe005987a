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

/// Selects the completions of a step to record.
struct RecordSelection {
  std::optional<int64_t> rollouts = {};  // the size of a random sample; nullopt: all
  uint64_t seed = 0;                     // with the step, the seed of the sample
};

/// Writes the token decisions of every update of a step to RUN/tokens, for all completions or a sample of them. Rows
/// are written in batches. A write error is kept until commit(), so that it does not interrupt the updates.
class TokenRecords {
 public:
  /// Creates `folder`. `indices` are those of the trained rollouts. The spans and the tokenizer must outlive the
  /// records.
  TokenRecords(std::filesystem::path folder, int64_t step, std::span<const Prompt> prompts,
               std::span<const Rollout> rollouts, std::span<const std::optional<int64_t>> indices,
               const RecordSelection& selection, const Tokenizer& tokenizer);

  /// Adds the decisions on a chunk of an update; `rollouts[s]` is the rollout of sequence s.
  void add(const TokenUpdate& tokens, std::span<const int64_t> rollouts);

  /// Ends an update, after all its tokens were added.
  void end_update() { update_++; }

  /// Completes the file after the last update. `metadata` describes the step; row counts and the texts of
  /// prompts are added to it.
  void commit(Json metadata);

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
  std::vector<bool> recorded_;  // by rollout
  int64_t num_trained_ = 0;     // rollouts
  std::unique_ptr<TokenFile> file_;
  std::exception_ptr failure_;
  std::vector<TokenRow> rows_;  // not written yet
  int64_t texts_rollout_ = -1;
  std::vector<std::string> texts_;  // of the tokens of texts_rollout_
  int64_t update_ = 0;
  int64_t written_ = 0;  // rows
};

}  // namespace keel
