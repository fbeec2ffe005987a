#include "keel/train/run_log.h"

#include <numeric>
#include <utility>

#include "keel/core/steady_clock.h"
#include "keel/core/strings.h"
#include "keel/core/str_cat.h"
#include "keel/train/health.h"
#include "keel/train/start/planned_steps.h"

namespace keel {
namespace {

std::string shown(const std::optional<double>& number, int digits) { return number ? fixed(*number, digits) : "-"; }

std::string interval_text(const std::optional<Interval>& interval, int64_t prompts) {
  if (interval) return "[" + fixed(interval->first, 3) + ", " + fixed(interval->second, 3) + "]";
  return prompts == 1 ? "no interval: there is one prompt" : "no interval: all rewards are equal";
}

}  // namespace

void RunLog::skipped_rows(const SkippedCounts& rows) {
  passed_over_.bad += rows.bad;
  passed_over_.too_long += rows.too_long;
  if (!rows.first.empty() && !std::exchange(told_of_passed_over_, true)) warning("passed over " + rows.first);
}

void RunLog::scored(const ScoreReport& report, size_t completions, int64_t step, const std::string& on_error) {
  for (const std::string& failure : report.failures) folder_.log("step " + std::to_string(step) + ": " + failure);
  if (const std::optional<std::string> first = tally_.add(report, completions))
    console_.warning(*first + " (reward.on_error is " + on_error + "; further ones are in log.txt)");
}

void RunLog::skipped_update(int64_t step, const std::string& trained_on) {
  folder_.log(str_cat("step ", step, ": an update was skipped, its gradient norm is not finite; ", trained_on));
}

void RunLog::overflowed_update(int64_t step) {
  folder_.log("step " + std::to_string(step) +
              ": an update was skipped, a gradient is beyond float16; its loss scale is " +
              "halved (optimizer/loss_scale in metrics.jsonl)");
}

void RunLog::begin_rl(int64_t done) {
  const std::scoped_lock lock(mutex_);
  standing_ = "RL " + std::to_string(done) + "/" + std::to_string(config_.train.steps);
  steps_left_ = config_.train.steps - done;
  lately_.clear();  // of supervised steps
}

void RunLog::warm_up_step(const SftMetrics& numbers, int64_t done, int64_t steps, double seconds) {
  if (!numbers.files) {
    const std::string line = "warm-up " + std::to_string(done) + "  loss " + fixed(numbers.loss_average, 3) +
                             (numbers.noisy ? "  noisy demonstrations" : "");
    {  // before it is printed: whoever shows what is under way is not to fall back behind it
      const std::scoped_lock lock(mutex_);
      standing_ = line;
    }
    console_.progress(line);
    folder_.log(line);
    return;
  }
  const std::string standing = str_cat("SFT ", done, "/", steps, "  loss ", fixed(numbers.loss, 3));
  const std::string line = str_cat(standing, "  mean ", fixed(numbers.loss_average, 3), "  tokens ",
                                   numbers.files->tokens, "  ", fixed(seconds, 2), " s");
  {
    const std::scoped_lock lock(mutex_);
    note_step(standing, steps - done, seconds);
  }
  show_step(line, done, steps);
}

void RunLog::supervised_loss(const SftEvalLoss& measured, int64_t step, const std::string& left_out) {
  if (!left_out.empty() && !std::exchange(told_of_not_measured_, true)) warning("loss on held-out rows: " + left_out);
  const std::string line = str_cat("step ", step, ": loss ", fixed(measured.loss, 4), " on ", measured.tokens,
                                   " tokens of ", measured.rows, " held-out row", measured.rows == 1 ? "" : "s");
  console_.line(line);
  folder_.log(line);
}

void RunLog::supervised_rows_passed_over(const SkippedCounts& rows) {
  if (!rows.first.empty() && !std::exchange(told_of_supervised_, true)) warning("passed over " + rows.first);
}

/// Some lines stay on the screen; the log has all.
void RunLog::show_step(const std::string& line, int64_t done, int64_t steps) {
  constexpr int64_t kKeptEvery = 10;  // a terminal shows the others in passing
  if (done == steps || done % kKeptEvery == 0)
    console_.keep(line);
  else
    console_.progress(line);
  folder_.log(line);
}

/// Before it is printed, under the lock: whoever shows what is under way is not to fall back behind it.
void RunLog::note_step(const std::string& standing, int64_t steps_left, double seconds) {
  constexpr size_t kLately = 10;
  standing_ = standing;
  steps_left_ = steps_left;
  ended_at_ = steady_seconds();
  lately_.push_back(seconds);
  if (lately_.size() > kLately) lately_.pop_front();
}

void RunLog::step(const StepMetrics& numbers, int64_t done, double seconds) {
  const int64_t steps = config_.train.steps;
  const auto of_tokens = [&](double TokenMetrics::*number, int digits) {
    return numbers.tokens ? fixed((*numbers.tokens).*number, digits) : "-";
  };
  const std::string standing = str_cat("RL ", done, "/", steps, "  reward ", shown(numbers.rollouts.reward_mean, 3));
  const std::string line =
      standing + "  entropy " + of_tokens(&TokenMetrics::entropy, 3) + "  blocked " +
      of_tokens(&TokenMetrics::masked, 4) + "  divergence " + of_tokens(&TokenMetrics::divergence_mean, 5) +
      "  length " + fixed(numbers.rollouts.length_mean, 1) + "  mismatch " +
      (numbers.tokens ? scientific(numbers.tokens->mismatch_mean) : "-") + "  " + fixed(seconds, 2) + " s";
  {
    const std::scoped_lock lock(mutex_);
    note_step(standing, steps - done, seconds);
    evaluations_left_ = remaining_evaluations(config_, done - 1);
    evaluation_next_ = evaluations_left_ > remaining_evaluations(config_, done);
  }
  show_step(line, done, steps);
  count_lesson(numbers);
}

/// A run that begins with steps for nothing is told soon: kAlarmSteps of them may take hours.
void RunLog::count_lesson(const StepMetrics& numbers) {
  constexpr int64_t kSoon = 3;
  ++rl_steps_;
  const std::optional<std::string> why = explain_missing_update(numbers);
  if (!why) return;
  why_empty_ = *why;
  if (++empty_steps_ == kSoon && rl_steps_ == kSoon)
    warning(str_cat("there was nothing to learn in the first ", kSoon, " steps: ", *why));
}

void RunLog::best(const BestEvaluation& best) {
  folder_.log("step " + std::to_string(best.step) + " is the best so far, by checkpoint.best_metric=" + best.metric +
              ": " + fixed(best.value, 4));
}

std::string RunLog::live_text(const std::string& stage) const {
  const std::scoped_lock lock(mutex_);
  std::string text = standing_;
  if (!stage.empty()) text += (text.empty() ? "" : "  ") + stage;
  if (lately_.empty() || text.empty()) return text;
  const double mean = std::accumulate(lately_.begin(), lately_.end(), 0.0) / static_cast<double>(lately_.size());
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
  const std::string left_out = held_out.note(), place = "step " + std::to_string(step) + ": ";
  if (!left_out.empty() && !std::exchange(told_of_left_out_, true)) console_.warning("evaluation: " + left_out);
  const int64_t unscored = result.statistics.all.unscored;
  if (unscored > 0)
    console_.warning(place + "no reward function judged " + std::to_string(unscored) + " of " +
                     std::to_string(result.verdicts.size()) + " completions of held-out prompts; they are left out");
  const int64_t prompts = result.statistics.all.prompts;
  if (result.has_rewards())
    console_.line(place + "held-out " + result.mean_name() + " " + fixed(result.mean, 3) + "  " +
                  interval_text(result.interval(), prompts) + "  on " + std::to_string(prompts) +
                  (prompts == 1 ? " prompt" : " prompts"));
}

void RunLog::print_summary(const PromptSources& prompt_sources, const Demonstrations& demonstrations) {
  for (const std::string& sentence : tally_.warnings()) warning(sentence);
  const std::string left_out = prompt_sources.describe_skipped(passed_over_);
  if (!left_out.empty()) warning("training: " + left_out);
  if (2 * empty_steps_ > rl_steps_)
    warning(
        str_cat("training: in ", empty_steps_, " of ", rl_steps_, " steps there was nothing to learn: ", why_empty_));
  const std::string not_learned = demonstrations.describe_skipped(demonstrations.skipped());
  if (!not_learned.empty()) warning("supervised: " + not_learned);
}

void RunLog::warning(const std::string& sentence) {
  console_.warning(sentence);
  folder_.log(sentence);
}

}  // namespace keel
