#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "keel/core/console.h"
#include "keel/data/prompt_stream.h"
#include "keel/evaluation/evaluation.h"
#include "keel/reward/score.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/step_metrics.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// Prints a run's progress on the console, which also writes log.txt. It owns the counts since the run was started or
/// resumed, and borrows the console and the configuration.
class RunLog {
 public:
  /// All references must outlive the log.
  RunLog(Console& console, const Config& config) : console_(console), config_(config) {}

  void warning(const std::string& text) { console_.warning(text); }
  void progress(const std::string& text) { console_.progress(text); }

  /// Counts rows without a usable prompt, and warns about the first one.
  void skipped_rows(const SkippedCounts& rows);
  /// Logs reward failures that do not stop the run, and warns about the first one.
  void scored(const ScoreReport& report, size_t completions, int64_t step, const std::string& on_error);
  void skipped_update(int64_t step, const std::string& trained_on);
  void overflowed_update(int64_t step);

  void begin_rl(int64_t done);
  /// Prints a line that stays on the screen for files, and is overwritten for the demonstrations of a task.
  void sft_step(const SftMetrics& metrics, int64_t done, int64_t steps, double seconds);
  void sft_eval_loss(const SftEvalLoss& loss, int64_t step, const std::string& skipped);
  /// Warns about the first row without a usable demonstration.
  void skipped_sft_rows(const SkippedCounts& rows);
  void step(const StepMetrics& metrics, int64_t done, double seconds);
  void evaluation(const Evaluation& result, const HeldOutPrompts& held_out, int64_t step, double seconds);
  void best(const BestEvaluation& best);

  /// Returns the progress line: step, current `stage`, time left. Thread-safe.
  std::string live_text(const std::string& stage) const;

  /// Prints the warnings about the whole run.
  void print_summary(const PromptSources& prompt_sources, const Demonstrations& demonstrations);

 private:
  void show_step(const std::string& line, int64_t done, int64_t steps);
  void check_first_steps(const StepMetrics& metrics);
  void set_progress(const std::string& progress, int64_t steps_left, double seconds);

  Console& console_;
  SkippedCounts skipped_rows_;
  bool warned_of_rl_rows_ = false, warned_of_eval_rows_ = false;       // skipped rows of training and evaluation
  bool warned_of_sft_rows_ = false, warned_of_sft_eval_rows_ = false;  // the same in section sft
  ScoreTally tally_;
  int64_t rl_steps_ = 0, empty_steps_ = 0;  // all RL steps, and those without an update
  std::string why_empty_;                   // the last reason
  const Config& config_;

  mutable std::mutex mutex_;  // guards all members below, which live_text() reads
  std::string progress_;      // "RL 12/100  reward 0.512"
  int64_t steps_left_ = 0, evaluations_left_ = 0;
  bool evaluation_next_ = false;     // whether an evaluation is due before the next step
  std::deque<double> step_seconds_;  // of the last steps
  double evaluation_seconds_ = 0;    // of the last evaluation
  double ended_at_ = 0;              // end of the last step or evaluation, on the steady clock
};

}  // namespace keel
