#include "keel/train/run_log.h"

#include <numeric>
#include <utility>

#include "keel/core/steady_clock.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"
#include "keel/train/health.h"
#include "keel/train/start/planned_steps.h"

namespace keel {
namespace {

std::string fixed_or_dash(const std::optional<double>& value, int digits) {
  return value ? fixed(*value, digits) : "-";
}

std::string interval_text(const std::optional<Interval>& interval, int64_t prompts) {
  if (interval) return "[" + fixed(interval->first, 3) + ", " + fixed(interval->second, 3) + "]";
  return prompts == 1 ? "no interval: only one prompt" : "no interval: all rewards are equal";
}

}  // namespace

void RunLog::skipped_rows(const SkippedCounts& rows) {
  skipped_rows_.bad += rows.bad;
  skipped_rows_.too_long += rows.too_long;
  if (!rows.first.empty() && !std::exchange(warned_of_rl_rows_, true)) warning("skipped " + rows.first);
}

void RunLog::scored(const ScoreReport& report, size_t completions, int64_t step, const std::string& on_error) {
  for (const std::string& failure : report.failures)
    console_.log("step " + std::to_string(step) + ": " + escape_controls(failure));
  if (const std::optional<std::string> first = tally_.add(report, completions))
    console_.warning(*first + " (reward.on_error is " + on_error + "; further ones are in log.txt)");
}

void RunLog::skipped_update(int64_t step, const std::string& trained_on) {
  console_.log(str_cat("step ", step, ": skipped an update with a NaN or infinite gradient norm, on ", trained_on));
}

void RunLog::overflowed_update(int64_t step) {
  console_.log("step " + std::to_string(step) +
               ": skipped an update with a float16 overflow, and halved the loss scale (optimizer/loss_scale)");
}

void RunLog::begin_rl(int64_t done) {
  const std::scoped_lock lock(mutex_);
  progress_ = "RL " + std::to_string(done) + "/" + std::to_string(config_.train.steps);
  steps_left_ = config_.train.steps - done;
  step_seconds_.clear();  // SFT steps take another time
}

void RunLog::sft_step(const SftMetrics& metrics, int64_t done, int64_t steps, double seconds) {
  if (!metrics.files) {
    const std::string line = "SFT " + std::to_string(done) + "  loss " + fixed(metrics.loss_average, 3) +
                             (metrics.noisy ? "  noisy demonstrations" : "");
    {  // before printing, so that the live line is never older than the printed one
      const std::scoped_lock lock(mutex_);
      progress_ = line;
    }
    console_.progress(line);
    return;
  }
  const std::string progress = str_cat("SFT ", done, "/", steps, "  loss ", fixed(metrics.loss, 3));
  const std::string line = str_cat(progress, "  mean ", fixed(metrics.loss_average, 3), "  tokens ",
                                   metrics.files->tokens, "  ", fixed(seconds, 2), " s");
  {
    const std::scoped_lock lock(mutex_);
    set_progress(progress, steps - done, seconds);
  }
  show_step(line, done, steps);
}

void RunLog::sft_eval_loss(const SftEvalLoss& loss, int64_t step, const std::string& skipped) {
  if (!skipped.empty() && !std::exchange(warned_of_sft_eval_rows_, true)) warning("loss on held-out rows: " + skipped);
  const std::string line = str_cat("step ", step, ": loss ", fixed(loss.loss, 4), " on ", loss.tokens, " tokens of ",
                                   loss.rows, " held-out row", loss.rows == 1 ? "" : "s");
  console_.line(line);
}

void RunLog::skipped_sft_rows(const SkippedCounts& rows) {
  if (!rows.first.empty() && !std::exchange(warned_of_sft_rows_, true)) warning("skipped " + rows.first);
}

/// Every kKeptInterval-th line stays on the screen; log.txt has all lines.
void RunLog::show_step(const std::string& line, int64_t done, int64_t steps) {
  constexpr int64_t kKeptInterval = 10;  // a terminal overwrites the other lines
  if (done == steps || done % kKeptInterval == 0)
    console_.keep(line);
  else
    console_.progress(line);
}

/// Call this before printing, under the lock, so that the live line is never older than the printed one.
void RunLog::set_progress(const std::string& progress, int64_t steps_left, double seconds) {
  constexpr size_t kRecentSteps = 10;
  progress_ = progress;
  steps_left_ = steps_left;
  ended_at_ = steady_seconds();
  step_seconds_.push_back(seconds);
  if (step_seconds_.size() > kRecentSteps) step_seconds_.pop_front();
}

void RunLog::step(const StepMetrics& metrics, int64_t done, double seconds) {
  const int64_t steps = config_.train.steps;
  const auto token_metric = [&](double TokenMetrics::*metric, int digits) {
    return metrics.tokens ? fixed((*metrics.tokens).*metric, digits) : "-";
  };
  const std::string progress =
      str_cat("RL ", done, "/", steps, "  reward ", fixed_or_dash(metrics.rollouts.reward_mean, 3));
  const std::string line =
      progress + "  entropy " + token_metric(&TokenMetrics::entropy, 3) + "  blocked " +
      token_metric(&TokenMetrics::masked, 4) + "  divergence " + token_metric(&TokenMetrics::divergence_mean, 5) +
      "  length " + fixed(metrics.rollouts.length_mean, 1) + "  mismatch " +
      (metrics.tokens ? scientific(metrics.tokens->mismatch_mean) : "-") + "  " + fixed(seconds, 2) + " s";
  {
    const std::scoped_lock lock(mutex_);
    set_progress(progress, steps - done, seconds);
    evaluations_left_ = remaining_evaluations(config_, done - 1);
    evaluation_next_ = evaluations_left_ > remaining_evaluations(config_, done);
  }
  show_step(line, done, steps);
  check_first_steps(metrics);
}

/// Warns early of a trust region below the mismatch, and if a run begins with steps without an update, because
/// kAlarmSteps steps may take hours.
void RunLog::check_first_steps(const StepMetrics& metrics) {
  constexpr int64_t kFirstSteps = 3;
  ++rl_steps_;
  if (const auto masks = warn_of_masks_by_mismatch(metrics, config_); masks && rl_steps_ == 1) warning(*masks);
  const std::optional<std::string> why = explain_missing_update(metrics);
  if (!why) return;
  why_empty_ = *why;
  if (++empty_steps_ == kFirstSteps && rl_steps_ == kFirstSteps)
    warning(str_cat("no update was made in the first ", kFirstSteps, " steps: ", *why));
}

void RunLog::best(const BestEvaluation& best) {
  console_.log("step " + std::to_string(best.step) + " is the best so far, by checkpoint.best_metric=" + best.metric +
               ": " + fixed(best.value, 4));
}

std::string RunLog::live_text(const std::string& stage) const {
  const std::scoped_lock lock(mutex_);
  std::string text = progress_;
  if (!stage.empty()) text += (text.empty() ? "" : "  ") + stage;
  if (step_seconds_.empty() || text.empty()) return text;
  const double mean =
      std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0) / static_cast<double>(step_seconds_.size());
  const double left = mean * static_cast<double>(steps_left_) +
                      evaluation_seconds_ * static_cast<double>(evaluations_left_) -
                      std::min(steady_seconds() - ended_at_, evaluation_next_ ? evaluation_seconds_ : mean);
  return left < 1 ? text : text + ", " + format_duration(left) + " left";
}

void RunLog::evaluation(const Evaluation& result, const HeldOutPrompts& held_out, int64_t step, double seconds) {
  {
    const std::scoped_lock lock(mutex_);
    evaluation_seconds_ = seconds;
    evaluations_left_ = remaining_evaluations(config_, config_.train.steps - steps_left_);
    evaluation_next_ = false;
    ended_at_ = steady_seconds();
  }
  const std::string skipped = held_out.note(), prefix = "step " + std::to_string(step) + ": ";
  if (!skipped.empty() && !std::exchange(warned_of_eval_rows_, true)) console_.warning("evaluation: " + skipped);
  const int64_t unscored = result.statistics.all.unscored;
  if (unscored > 0)
    console_.warning(prefix + "no reward function returned a reward for " + std::to_string(unscored) + " of " +
                     std::to_string(result.verdicts.size()) + " completions of held-out prompts; they are excluded");
  const int64_t prompts = result.statistics.all.prompts;
  if (result.has_rewards())
    console_.line(prefix + "held-out " + result.mean_name() + " " + fixed(result.mean, 3) + "  " +
                  interval_text(result.interval(), prompts) + "  on " + std::to_string(prompts) +
                  (prompts == 1 ? " prompt" : " prompts"));
}

void RunLog::print_summary(const PromptSources& prompt_sources, const Demonstrations& demonstrations) {
  for (const std::string& text : tally_.warnings()) warning(text);
  const std::string skipped = prompt_sources.describe_skipped(skipped_rows_);
  if (!skipped.empty()) warning("training: " + skipped);
  if (2 * empty_steps_ > rl_steps_)
    warning(str_cat("training: no update was made in ", empty_steps_, " of ", rl_steps_, " steps: ", why_empty_));
  const std::string skipped_sft = demonstrations.describe_skipped(demonstrations.skipped());
  if (!skipped_sft.empty()) warning("sft: " + skipped_sft);
}

}  // namespace keel
