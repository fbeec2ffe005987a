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

/// How long the rows of files are, and how many an update has.
struct RowLengths {
  double mean_rows_per_update = 0;  // on average: the last of a number of passes has what is left
  double max_rows_per_update = 0;   // of an update
  double mean_tokens_per_row = 0;   // on average
  double held_out_tokens = 0;       // of all rows that the loss is measured on
};

/// Rounds rows or steps of fractional passes up, to at least 1: 0.1 of 30 are 3, despite floating-point error.
int64_t round_up_epochs(double exact);

/// The supervised phase's sequences: the rows of the user's files, or the demonstrations of a built-in task; none
/// without such a phase. It owns the rows or the task and borrows nothing.
class Demonstrations {
 public:
  Demonstrations(const Config& config, const LoadedModel& policy);

  /// Those of the next update; the state is moved behind them, or stays as it is where a row is refused.
  std::vector<SupervisedSequence> next(SftState& state);

  /// Whether all updates are made.
  bool done(const SftOptions& options, const SftState& state) const;

  /// Rows to measure the loss on; null: none. One pass, to be read from its beginning (go_back_to).
  RowStream<SupervisedRow>* held_out() { return files_ && files_->held_out ? &*files_->held_out : nullptr; }

  /// Files without a single row to learn from, or to measure on, are refused.
  void require_rows();

  /// With a length in passes over files: updates made plus those that the remaining rows take. Reads all rows, once.
  int64_t planned_steps(const SftState& state) const;
  uint64_t rows_per_epoch() const { return survey().items; }
  /// Of all passes.
  int64_t planned_rows() const;
  /// Passes that the state has made.
  double passes(const SftState& state) const;

  /// As far as the first rows tell.
  RowLengths lengths();

  bool from_files() const { return files_.has_value(); }
  /// A run is resumed on the same files, unless the user accepts changed ones.
  DataIdentity data() const { return files_ ? files_->identity : DataIdentity{}; }
  /// Sentences to print: how the files were read; and what is odd.
  const std::vector<std::string>& notes() const;
  std::vector<std::string> warnings() const;

  /// Rows that are passed over in a pass, where all were looked at; else those since the files were opened.
  SkippedCounts skipped() const;
  /// "2 rows left out: longer than sft.max_tokens, 64"; empty where there are none.
  std::string describe_skipped(const SkippedCounts& skipped) const;
  /// In tokens; longer rows are left out.
  int64_t limit() const { return limit_; }

 private:
  const RowStream<SupervisedRow>::Survey& survey() const;

  int64_t batch_;
  std::optional<double> data_epochs_;
  double held_out_share_;
  std::function<SupervisedSequence(uint64_t index, bool noisy)> demonstrate_;  // of a task
  std::optional<OpenedRows<SupervisedRow>> files_;
  mutable std::optional<RowStream<SupervisedRow>::Survey> survey_;
  int64_t limit_ = 0;
  std::string limit_name_;
};

}  // namespace keel
