#include "keel/train/run.h"

#include <ATen/ATen.h>

#include <chrono>

#include "keel/core/interrupt.h"
#include "keel/core/shell_words.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/best_metric.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/config/evaluation_request.h"
#include "keel/train/health.h"

namespace keel {
namespace {

constexpr int64_t kEvaluationSamples = 3;
constexpr std::chrono::minutes kBetweenReports(1);  // which take a second or two of a long run

}  // namespace

std::unique_ptr<Run> Run::start(const Config& config, bool replace, Console& console) {
  return std::unique_ptr<Run>(new Run(open_new_run(config, replace, console), console));
}

std::unique_ptr<Run> Run::resume(const Config& config, Console& console, const AcceptedChanges& accepted) {
  return std::unique_ptr<Run>(new Run(open_saved_run(config, accepted, console), console));
}

Run::Run(OpenedRun opened, Console& console)
    : config_(std::move(opened.config)),
      console_(console),
      policy_(std::move(opened.policy)),
      problems_(std::move(opened.problems)),
      demonstrations_(std::move(opened.demonstrations)),
      folder_(std::move(opened.folder)),
      trackers_(std::move(opened.trackers)),
      log_(console, folder_, config_),
      state_(std::move(opened.state)),
      watcher_(config_, policy_, state_, folder_, log_),
      id_(std::move(opened.id)),
      last_checkpoint_(std::move(opened.checkpoint)),
      best_metric_(config_.has_rl() ? best_metric_key(config_.checkpoint.best_metric, problems_) : "") {
  if (config_.record.tensorboard) folder_.write_events();
  trackers_.add_rows_of(folder_.path(), console_);
  for (const std::string& warning : problems_.warnings()) console_.warning(warning);
  for (const std::string& warning : demonstrations_.warnings()) console_.warning(warning);
  if (config_.train.recompute_activations) {
    policy_.model.recompute_activations();
    if (opened.companions.critic && opened.companions.critic->body)
      opened.companions.critic->body->recompute_activations();
  }
  if (config_.rollout.bitwise) {
    policy_.model.make_bitwise();
    if (opened.companions.reference) opened.companions.reference->make_bitwise();
    if (opened.companions.critic && opened.companions.critic->body) opened.companions.critic->body->make_bitwise();
  }
  if (state_.rl.adapter_apart) policy_.model.keep_adapter_apart();
  begin(state_.phase, std::move(opened.companions));
  if (last_checkpoint_.empty()) {
    for (const std::string& note : demonstrations_.notes()) folder_.log("sft: " + note);
    for (const std::string& note : problems_.notes()) folder_.log("data: " + note);
    return;
  }
  if (warm_up_)
    warm_up_->load_optimizer(opened.optimizer, last_checkpoint_.string());
  else
    trainer_->load_optimizer(opened.optimizer, state_, last_checkpoint_.string());
  folder_.forget_tokens_after(state_.step());
  console_.line("resumed from " + last_checkpoint_.string());
  for (const std::string& warning : opened.warnings) log_.warning(warning);
  for (const std::string& change : opened.changes) {  // config.yaml says what holds now, log.txt from when on
    console_.line("  " + change);
    folder_.log("resumed at step " + std::to_string(state_.step()) + " with " + change);
  }
  look_for_best();
}

/// Tells what becomes of the best checkpoint that a resumed run had.
void Run::look_for_best() {
  if (!state_.best) return;
  const std::filesystem::path best = folder_.checkpoints() / checkpoint_name(state_.best->step);
  const std::string name = best.string() + ", the best by " + state_.best->metric + ",";
  if (!path_exists(best)) {
    log_.warning(name + " is gone" + (config_.checkpoint.keep_best ? "; the next evaluation takes its place" : ""));
    state_.best.reset();
  } else if (!config_.checkpoint.keep_best) {
    log_.warning(name + " is kept, but checkpoint.keep_best is false now: no better one will take its place");
  } else if (state_.best->metric != best_metric_) {
    log_.warning(name + " is kept until the next evaluation, which is the first by " + best_metric_ +
                 " (checkpoint.best_metric); copy it to keep it for longer");
  }
}

/// A reference is the policy as it is when RL starts, and must be beside the checkpoints before the first of them that
/// says that RL has begun; a run that is resumed later than that has loaded it.
void Run::begin(Phase phase, Companions saved) {
  state_.phase = phase;
  if (phase == Phase::kSft || !config_.has_rl()) {
    if (!warm_up_) warm_up_.emplace(config_, policy_, demonstrations_);
    return;
  }
  warm_up_.reset();
  const bool new_reference = phase == Phase::kRl && !saved.reference;
  trainer_.emplace(config_, policy_, problems_, std::move(saved));
  if (!new_reference || !trainer_->reference()) return;
  wait_for_save();
  folder_.write([&] { save_reference(folder_.path() / kReferenceFolder, *trainer_->reference(), policy_, id_); });
}

ExitCode Run::run() {
  try {
    const ExitCode code = run_to_the_end();
    trackers_.end(code == ExitCode::kDone ? "finished" : "stopped", console_);
    return code;
  } catch (const RunWriteError& error) {
    console_.end_progress();
    fail(error.code(), error.what(), ". ", what_is_left());
  }
}

ExitCode Run::run_to_the_end() {
  const LiveLine live(console_, [this] { return log_.live_text(watcher_.meters->text()); });
  try {
    return run_phases();
  } catch (const Interrupted&) {  // in a step that had learned nothing yet: the run is where the step before left it
    saved_for_interrupt();
    return ExitCode::kInterrupted;
  } catch (const Error& error) {
    // Numbers that are not finite, or a full disk: what would be saved is in doubt, or cannot be.
    if (!watcher_.drawing || error.code() == ExitCode::kHealthGuard) throw;
    throw Error(error.code(), error.what() + saved_after_failure());
  } catch (const std::exception&) {  // out of memory, say
    if (watcher_.drawing) console_.result("stopped by an error" + saved_after_failure());
    throw;
  }
}

/// A failure while nothing was learned yet leaves the run as the step before did: it is saved as it would be for an
/// interrupt. The sentence to add to what is told.
std::string Run::saved_after_failure() {
  if (state_.step() == 0) return "";  // nothing is lost
  console_.end_progress();
  try {
    wait_for_save();
    if (last_checkpoint_.filename() != checkpoint_name(state_.step())) save();
  } catch (const RunWriteError&) {
    throw;
  } catch (const std::exception& error) {
    return std::string(". The steps since the last checkpoint could not be saved: ") + error.what();
  }
  return ". The run is saved up to step " + std::to_string(state_.step()) + " in " + last_checkpoint().string() +
         "; continue with: " + resume_command();
}

ExitCode Run::run_phases() {
  if (saved_for_interrupt()) return ExitCode::kInterrupted;
  if (state_.phase == Phase::kSft && !warm_up()) return ExitCode::kInterrupted;
  if (state_.phase == Phase::kRl && !learn()) return ExitCode::kInterrupted;
  if (const auto damage = find_damage(last_checkpoint_))
    fail(ExitCode::kHealthGuard, last_checkpoint_.string(), ": the last checkpoint does not verify: ", *damage);
  console_.end_progress();
  log_.at_the_end(problems_, demonstrations_);
  return ExitCode::kDone;
}

/// False when someone asked to stop.
bool Run::learn() {
  log_.begin_rl(state_.rl.steps);
  self_test();
  bool due = false;
  while (true) {
    const bool best = evaluate_if_due();
    note_finished_save();
    if (saved_for_interrupt()) return false;
    if (state_.rl.steps >= config_.train.steps) break;
    if (due || best) save(Saving::kBesideSteps);
    rl_step();
    due = state_.rl.steps < config_.train.steps && checkpoint_due();
    // Asked to stop, it is saved in a moment anyway; and so it is after an evaluation that may be the best.
    if (!due || stop_requested() || (config_.checkpoint.keep_best && evaluation_due())) continue;
    save(Saving::kBesideSteps);
    due = false;
  }
  state_.phase = Phase::kDone;
  save();
  return true;
}

void Run::rl_step() {
  Stopwatch watch(policy_.model.device());
  watcher_.drawing = true;  // until all is scored
  const auto [experience, numbers] = trainer_->step(state_, watcher_);
  folder_.write([&] { watcher_.write(experience); });
  const double seconds = watch.lap();
  record_step("rl", step_row(numbers), seconds);
  log_.step(numbers, state_.rl.steps, seconds);
  look_after_health(numbers);
}

/// A run that is to stop is saved first, and counts on when it is resumed.
void Run::look_after_health(const StepNumbers& numbers) {
  const std::vector<std::string> alarms = health_alarms(numbers, config_, state_.rl.health);
  for (const std::string& alarm : alarms) log_.warning("step " + std::to_string(state_.step()) + ": " + alarm);
  if (alarms.empty() || config_.health.on_alarm != "stop") return;
  save();
  fail(ExitCode::kHealthGuard, "step ", state_.step(), ": ", alarms.front(), ". The run is saved in ",
       last_checkpoint().string(), " (health.on_alarm is stop); `", resume_command(),
       "` goes on with it, health.on_alarm=warn beside it lets it go on");
}

/// An adapter is merged for sampling, which rounds; where too much of it is lost, the sampler applies it as training
/// does from then on, also when the run is resumed. (A sampler of low precision merges whatever the exact one does.)
void Run::self_test() {
  Agreement agreement = trainer_->agreement(state_);
  const at::ScalarType computed_in = policy_.model.compute_type();
  const double limit = config_.rollout.mismatch_limit;
  const auto lost = disagreement(agreement, limit, computed_in);
  if (lost && policy_.model.samples_merged() && config_.rollout.weights == "exact") {
    log_.warning("self-test: with the adapter merged " + *lost +
                 "; from here on the sampler applies it as training does, which takes longer");
    policy_.model.keep_adapter_apart();
    state_.rl.adapter_apart = true;
    agreement = trainer_->agreement(state_);
  }
  require_agreement(agreement, limit, computed_in);
  console_.line(agreement_sentence(agreement, objective().requirements()));
  if (const auto doubt = agreement_warning(agreement, computed_in)) log_.warning(*doubt);
}

bool Run::evaluation_due() const {
  if (config_.eval.prompts == 0 || state_.rl.last_evaluation == state_.step()) return false;
  const int64_t done = state_.rl.steps, every = config_.eval.every;
  return done == 0 || done >= config_.train.steps || (every > 0 && done % every == 0);
}

/// Whether it was the best so far, where that is kept.
bool Run::evaluate_if_due() {
  if (!evaluation_due()) return false;
  watcher_.drawing = true;
  const HeldOut held_out = this->held_out();
  const std::vector<Prompt>& prompts = held_out.prompts;
  if (prompts.empty()) return false;  // files without a part to evaluate on
  console_.progress("evaluating on " + std::to_string(prompts.size()) + " held-out prompts");
  Stopwatch watch(policy_.model.device());
  const Evaluation result = evaluate(policy_, prompts, problems_.reward(), evaluation_request(config_, state_.updates),
                                     stop_requested, &watcher_.meters->training);
  const double seconds = watch.lap();
  watcher_.drawing = false;
  if (result.count < static_cast<int64_t>(prompts.size()))
    return false;  // told to stop: measured again when the run is resumed
  log_.scored(result.scores, result.rollouts.size(), state_.step(), config_.reward.on_error);
  state_.rl.last_evaluation = state_.step();
  Json row = row_of("eval");
  write_evaluation(result, row);
  if (held_out.left_out.too_long > 0) {
    row["eval/too_long"] = held_out.left_out.too_long;
    row["eval/max_prompt_tokens"] = problems_.prompt_limit();
  }
  if (held_out.left_out.bad > 0) row["eval/bad_rows"] = held_out.left_out.bad;
  if (const std::string extent = held_out.extent(); !extent.empty()) row["eval/extent"] = extent;
  add_metrics(row);
  for (int64_t i = 0; i < std::min(kEvaluationSamples, result.count); ++i) {
    const int64_t first = i * config_.eval.samples;
    Json sample = sample_row("eval", state_.step(), prompts[i], result.rollouts[first], policy_.tokenizer);
    if (!result.verdicts[first].reward) sample["reward"] = nullptr;
    folder_.add_sample(sample);
  }
  log_.evaluation(result, held_out, state_.step(), seconds);
  if (!config_.checkpoint.keep_best) return false;
  if (!row.contains(best_metric_))
    log_.warning("step " + std::to_string(state_.step()) + ": this evaluation has no " + best_metric_ +
                 " (checkpoint.best_metric), and is not compared with the best one");
  if (!state_.note_evaluation(row, best_metric_)) return false;
  folder_.log("step " + std::to_string(state_.step()) + " is the best so far, by checkpoint.best_metric=" +
              state_.best->metric + ": " + fixed(state_.best->value, 4));
  return true;
}

/// How every row of metrics begins.
Json Run::row_of(const char* phase) const {
  return {{"phase", phase}, {"step", state_.step()}, {"updates", state_.updates}};
}

void Run::record_step(const char* phase, const Json& numbers, double seconds) {
  Json row = row_of(phase);
  row.update(numbers);
  row["time/step"] = seconds;
  row["time/checkpoint"] = std::exchange(checkpoint_seconds_, 0);
  row["time/checkpoint_write"] = std::exchange(write_seconds_, 0);
  row["memory/peak_bytes"] = peak_memory_bytes(policy_.model.device());
  add_metrics(row);
}

void Run::add_metrics(const Json& row) { trackers_.add(folder_.add_metrics(row), console_); }

bool Run::checkpoint_due() const {
  return config_.checkpoint.every > 0 && state_.step() % config_.checkpoint.every == 0;
}

/// Now: returns when the checkpoint is on the disk. Beside steps: when what it holds is copied; the rest is done on
/// another thread, one save at a time, and what goes wrong there is told by wait_for_save().
void Run::save(Saving how) {
  Stopwatch watch(policy_.model.device());
  wait_for_save();
  require_finite_weights();
  folder_.write([&] {
    Save save = next_save();
    saved_state_ = to_json(state_);
    if (how == Saving::kNow || !copied(save.checkpoint)) return note_saved(write_save(save));
    // Deferred where there can be no more threads: written when it is waited for. What is given to both must be copied,
    // for the library would move it into the thread that was not made.
    const auto write = [copy = std::make_shared<const Save>(std::move(save))] { return write_save(*copy); };
    writing_ = std::async(std::launch::async | std::launch::deferred, write);
  });
  checkpoint_seconds_ += watch.lap();
}

/// The run as it is now, with all rows that it has written on the disk.
Save Run::next_save() {
  const RunFolder::Lines lines = folder_.sync();
  LoadedModel policy = policy_;
  policy.model = policy_.model.merged();
  Save save{.checkpoint = {.policy = std::move(policy),
                           .optimizer = warm_up_ ? warm_up_->optimizer_state() : trainer_->optimizer_state(),
                           .state = state_,
                           .lines = lines,
                           .config = to_json(config_),
                           .run = id_,
                           .adapter = policy_.model.adapter()},
            .run = folder_.path(),
            .keep = config_.checkpoint.keep,
            .first = last_checkpoint_.empty(),
            .report = std::chrono::steady_clock::now() - reported_at_ >= kBetweenReports};
  if (save.report) reported_at_ = std::chrono::steady_clock::now();
  if (trainer_ && trainer_->critic()) save.checkpoint.critic = *trainer_->critic();
  return save;
}

/// Makes another set of weights and moments in host memory; false where it is not wanted or does not fit.
bool Run::copied(Checkpoint& checkpoint) {
  if (!config_.checkpoint.background) return false;
  const int64_t bytes = bytes_to_copy(checkpoint), available = available_memory_bytes();
  const int64_t again = std::max<int64_t>(peak_memory_bytes(at::kCPU) - held_memory_bytes(), 0);
  if (has_room_for_copy(std::max<int64_t>(bytes - copied_bytes_, 0), again, available) && copy_to_host(checkpoint)) {
    copied_bytes_ = std::max(copied_bytes_, bytes);
    return true;
  }
  if (!std::exchange(told_of_memory_, true))
    console_.line("a checkpoint is written while the run waits: of the " + format_bytes(available) +
                  " of memory that are free, a copy takes " + format_bytes(bytes) + ", and a step may need " +
                  format_bytes(again) + " again. Told once; checkpoint.background=false makes no copies");
  return false;
}

/// Of the save under way, if there is one. What it could not do is told as if it had been done here.
void Run::wait_for_save() {
  if (writing_.valid()) folder_.write([&] { note_saved(writing_.get()); });
}

void Run::note_saved(const Saved& saved) {
  last_checkpoint_ = saved.checkpoint;
  write_seconds_ += saved.seconds;
  if (saved.report_failure && !std::exchange(told_of_report_, true))
    log_.warning(*saved.report_failure + "; there is no new report until this is mended");
}

void Run::require_finite_weights() const {
  keel::require_finite_weights(policy_.model, trainer_ ? trainer_->critic() : nullptr, state_, config_,
                               folder_.checkpoints());
}

/// Takes note of a save under way if it has ended.
void Run::note_finished_save() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout) wait_for_save();
}

/// When someone asked to stop: saves, says how to go on, and answers true.
bool Run::saved_for_interrupt() {
  if (!stop_requested()) return false;
  wait_for_save();
  const bool saved = to_json(state_) == saved_state_ && path_exists(last_checkpoint_);
  if (!saved) save();
  console_.end_progress();
  log_.at_the_end(problems_, demonstrations_);
  console_.result("interrupted at step " + std::to_string(state_.step()) + "; saved " + last_checkpoint().string() +
                  "\ncontinue with: " + resume_command());
  return true;
}

std::string Run::resume_command() const {
  const std::filesystem::path now = folder_.current_path();
  return "keel train " + shell_word((now / "config.yaml").string()) + " --resume" +
         (now == folder_.path() ? "" : " run.dir=" + shell_word(now.string()));
}

std::filesystem::path Run::last_checkpoint() const {
  return folder_.current_path() / "checkpoints" / last_checkpoint_.filename();
}

/// After a write that failed for good: the last complete checkpoint, what is lost since, and how to continue.
std::string Run::what_is_left() {
  std::filesystem::path newest;
  std::string flag;
  try {
    if (writing_.valid()) writing_.wait();
    std::vector<std::string> damaged;
    newest = newest_checkpoint(folder_.checkpoints(), damaged);
    if (!newest.empty() && !find_changed_rows(folder_.path(), newest).empty()) flag = " --damaged-rows";
  } catch (const Error& error) {  // a folder that cannot be read, either
    return std::string("Its checkpoints cannot be read: ") + error.what();
  }
  if (newest.empty())
    return "No complete checkpoint is left: all " + std::to_string(state_.step()) +
           " steps are lost. Start the run again";
  const int64_t lost = state_.step() - std::stoll(newest.filename().string().substr(5));
  return "The last complete checkpoint is " + (folder_.current_path() / "checkpoints" / newest.filename()).string() +
         "; steps lost after it: " + std::to_string(lost) + ". Continue with: " + resume_command() + flag;
}

}  // namespace keel
