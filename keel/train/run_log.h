#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "keel/core/console.h"
#include "keel/data/prompt_stream.h"
#include "keel/evaluation/evaluation.h"
#include "keel/record/run_folder.h"
#include "keel/reward/score.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/step_metrics.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// What a run prints on the console and in log.txt. It owns the counts that this takes since the run was started or
/// resumed, and borrows the console, the run's folder and the configuration.
class RunLog {
 public:
  /// All must outlive it.
  RunLog(Console& console, RunFolder& folder, const Config& config)
      : console_(console), folder_(folder), config_(config) {}

  void warning(const std::string& sentence);
  void progress(const std::string& text) { console_.progress(text); }

  /// Rows that gave no prompt are counted, and the first of them is told.
  void skipped_rows(const SkippedCounts& rows);
  /// Where failures do not stop the run, the log has them all, and the first is told.
  void scored(const ScoreReport& report, size_t completions, int64_t step, const std::string& on_error);
  void skipped_update(int64_t step, const std::string& trained_on);
  void overflowed_update(int64_t step);

  void begin_rl(int64_t done);
  /// Of files the screen keeps lines as it does of RL; a warm-up passes by.
  void warm_up_step(const SftMetrics& numbers, int64_t done, int64_t steps, double seconds);
  void supervised_loss(const SftEvalLoss& measured, int64_t step, const std::string& left_out);
  /// The first of the rows that gave nothing to learn is told.
  void supervised_rows_passed_over(const SkippedCounts& rows);
  void step(const StepMetrics& numbers, int64_t done, double seconds);
  void evaluation(const Evaluation& result, const HeldOutPrompts& held_out, int64_t step, double seconds);
  void best(const BestEvaluation& best);

  /// One line on where the run stands: the step, the `stage` that is under way, the time left. By any thread.
  std::string live_text(const std::string& stage) const;

  /// What was counted.
  void print_summary(const PromptSources& prompt_sources, const Demonstrations& demonstrations);

 private:
  void show_step(const std::string& line, int64_t done, int64_t steps);
  void count_lesson(const StepMetrics& numbers);
  void note_step(const std::string& standing, int64_t steps_left, double seconds);

  Console& console_;
  RunFolder& folder_;
  SkippedCounts passed_over_;
  bool told_of_passed_over_ = false, told_of_left_out_ = false;     // rows of the training data, of the evaluation's
  bool told_of_supervised_ = false, told_of_not_measured_ = false;  // the same of section sft
  ScoreTally tally_;
  int64_t rl_steps_ = 0, empty_steps_ = 0;  // all, and those in which there was nothing to learn
  std::string why_empty_;                   // the last of these
  const Config& config_;

  mutable std::mutex mutex_;  // for all below, which live_text() reads
  std::string standing_;      // "RL 12/100  reward 0.512"
  int64_t steps_left_ = 0, evaluations_left_ = 0;
  bool evaluation_next_ = false;   // as far as is known
  std::deque<double> lately_;      // seconds of the last steps
  double evaluation_seconds_ = 0;  // of the last one
  double ended_at_ = 0;            // the last of either, on the steady clock
};

}  // namespace keel
