#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "keel/data/open_dataset.h"
#include "keel/model/loaded_model.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"

namespace keel {

/// Sizes of supervised updates on rows of files, in rows and tokens.
struct SftSizes {
  double mean_rows_per_update = 0;  // the last update may be smaller
  double max_rows_per_update = 0;
  double mean_tokens_per_row = 0;
  int64_t longest_row = 0;     // in tokens
  double held_out_tokens = 0;  // of all held-out rows
};

/// Rounds a number of rows or steps up, to at least 1, with a tolerance for floating-point error (0.1 x 30 is 3).
int64_t round_up_epochs(double count);

/// The sequences of the supervised phase: rows of the user's files, or demonstrations of a built-in task.
class Demonstrations {
 public:
  Demonstrations(const Config& config, const LoadedModel& policy);

  /// Returns the sequences of the next update and advances the state. If a bad row throws, the state does not change.
  std::vector<SupervisedSequence> next(SftState& state);

  /// Returns whether all updates were made.
  bool done(const SftOptions& options, const SftState& state) const;

  /// Rows to measure the loss on, or null. The stream ends after one epoch; rewind it with rewind({}) before use.
  RowStream<SupervisedRow>* held_out() { return files_ && files_->held_out ? &*files_->held_out : nullptr; }

  /// Fails if there is no training row, or no held-out row though some are configured.
  void require_rows();

  /// Requires data_epochs. Returns the updates made so far plus those for the remaining rows. Reads all rows, once.
  int64_t planned_steps(const SftState& state) const;
  uint64_t rows_per_epoch() const { return survey().items; }
  /// The rows of all epochs.
  int64_t planned_rows() const;
  /// The epochs that the state has completed.
  double epochs(const SftState& state) const;

  /// Estimates the sizes from the first rows.
  SftSizes sizes() const;

  bool from_files() const { return files_.has_value(); }
  /// Identifies the files; a resumed run needs the same ones.
  DataIdentity data() const { return files_ ? files_->identity : DataIdentity{}; }
  /// Messages to print about how the files are read.
  const std::vector<std::string>& notes() const;
  std::vector<std::string> warnings() const;

  /// The rows skipped per epoch if all rows were read, else since the files were opened.
  SkippedCounts skipped() const;
  /// "2 rows skipped: longer than sft.max_tokens, 64", or empty.
  std::string describe_skipped(const SkippedCounts& skipped) const;
  int64_t max_row_tokens() const { return max_row_tokens_; }

 private:
  const RowStream<SupervisedRow>::Survey& survey() const;

  int64_t batch_;
  std::optional<double> data_epochs_;
  double held_out_fraction_;
  std::function<SupervisedSequence(uint64_t index, bool noisy)> demonstrate_;  // for a task
  std::optional<OpenedRows<SupervisedRow>> files_;
  mutable std::optional<RowStream<SupervisedRow>::Survey> survey_;
  int64_t max_row_tokens_ = 0;
  std::string max_row_tokens_source_;  // "sft.max_tokens" or the model's limit
};

}  // namespace keel
