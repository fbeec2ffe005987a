#include "keel/train/run.h"

#include <ATen/ATen.h>

#include "keel/core/interrupt.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/health.h"

namespace keel {

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
      prompt_sources_(std::move(opened.prompt_sources)),
      demonstrations_(std::move(opened.demonstrations)),
      folder_(std::move(opened.folder)),
      trackers_(std::move(opened.trackers)),
      log_(console, folder_, config_),
      state_(std::move(opened.state)),
      watcher_(config_, policy_, state_, folder_, trackers_, log_),
      id_(std::move(opened.id)),
      evaluator_(config_, policy_, prompt_sources_, state_, log_, watcher_),
      checkpoints_(config_, folder_, log_, console_, std::move(opened.checkpoint)) {
  if (config_.record.tensorboard) folder_.write_events();
  trackers_.add_rows_of(folder_.path());
  for (const std::string& warning : prompt_sources_.warnings()) console_.warning(warning);
  for (const std::string& warning : demonstrations_.warnings()) console_.warning(warning);
  begin(state_.phase, std::move(opened.companions));
  const std::string resumed = checkpoints_.last().string();
  if (resumed.empty()) {
    for (const std::string& note : demonstrations_.notes()) folder_.log("sft: " + note);
    for (const std::string& note : prompt_sources_.notes()) folder_.log("data: " + note);
    return;
  }
  if (warm_up_)
    warm_up_->load_optimizer(opened.optimizer, resumed);
  else
    trainer_->load_optimizer(opened.optimizer, state_, resumed);
  folder_.remove_tokens_after(state_.step());
  console_.line("resumed from " + resumed);
  for (const std::string& warning : opened.warnings) log_.warning(warning);
  for (const std::string& change : opened.changes) {  // config.yaml says what holds now, log.txt from when on
    console_.line("  " + change);
    folder_.log("resumed at step " + std::to_string(state_.step()) + " with " + change);
  }
  checkpoints_.check_best(state_, evaluator_.best_metric());
}

/// A reference is the policy as it is when RL starts, and must be beside the checkpoints before the first of them that
/// says that RL has begun; a run that is resumed later than that has loaded it.
void Run::begin(Phase phase, AuxiliaryWeights saved) {
  state_.phase = phase;
  if (phase == Phase::kSft || !config_.has_rl()) {
    if (!warm_up_) warm_up_.emplace(config_, policy_, *saved.masters, demonstrations_);
    return;
  }
  if (warm_up_) saved.masters = warm_up_->masters();
  warm_up_.reset();
  const bool new_reference = phase == Phase::kRl && !saved.reference;
  trainer_.emplace(config_, policy_, prompt_sources_, std::move(saved));
  if (!new_reference || !trainer_->reference()) return;
  checkpoints_.wait();
  const ModelWeights& reference = trainer_->reference()->weights();
  folder_.write([&] { save_reference(folder_.path() / kReferenceFolder, reference, policy_, id_); });
}

ExitCode Run::run() {
  try {
    const ExitCode code = run_to_the_end();
    trackers_.end(code == ExitCode::kDone ? "finished" : "stopped");
    return code;
  } catch (const RunWriteError& error) {
    console_.end_progress();
    fail(error.code(), error.what(), ". ", checkpoints_.what_is_left(state_.step()));
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
    if (!watcher_.collecting || error.code() == ExitCode::kHealthGuard) throw;
    throw Error(error.code(), error.what() + saved_after_failure());
  } catch (const std::exception&) {  // out of memory, say
    if (watcher_.collecting) console_.result("stopped by an error" + saved_after_failure());
    throw;
  }
}

/// A failure while nothing was learned yet leaves the run as the step before did: it is saved as it would be for an
/// interrupt. The sentence to add to what is told.
std::string Run::saved_after_failure() {
  if (state_.step() == 0) return "";  // nothing is lost
  console_.end_progress();
  try {
    checkpoints_.wait();
    if (checkpoints_.last().filename() != checkpoint_name(state_.step())) save();
  } catch (const RunWriteError&) {
    throw;
  } catch (const std::exception& error) {
    return std::string(". The steps since the last checkpoint could not be saved: ") + error.what();
  }
  return ". The run is saved up to step " + std::to_string(state_.step()) + " in " + last_checkpoint().string() +
         "; continue with: " + checkpoints_.resume_command();
}

ExitCode Run::run_phases() {
  if (saved_for_interrupt()) return ExitCode::kInterrupted;
  if (state_.phase == Phase::kSft && !warm_up()) return ExitCode::kInterrupted;
  if (state_.phase == Phase::kRl && !learn()) return ExitCode::kInterrupted;
  if (const auto damage = find_damage(checkpoints_.last()))
    fail(ExitCode::kHealthGuard, checkpoints_.last().string(), ": the last checkpoint does not verify: ", *damage);
  console_.end_progress();
  log_.print_summary(prompt_sources_, demonstrations_);
  return ExitCode::kDone;
}

/// False when someone asked to stop.
bool Run::warm_up() {
  bool due = false;
  while (true) {
    evaluator_.measure_loss_if_due(*warm_up_, demonstrations_);
    if (warm_up_->done(state_)) begin(config_.has_rl() ? Phase::kRl : Phase::kDone);
    checkpoints_.wait_if_ended();
    if (saved_for_interrupt()) return false;
    if (state_.phase != Phase::kSft) break;
    if (due) save(SaveMode::kInBackground);
    warm_up_step();
    due = checkpoints_.due(state_.step());
  }
  save();
  return true;
}

void Run::warm_up_step() {
  Stopwatch watch(policy_.model.device());
  const uint64_t first = state_.sft.position;
  watcher_.collecting = true;
  const std::vector<SupervisedSequence> sequences = demonstrations_.next(state_.sft);
  watcher_.collecting = false;
  watcher_.trained_on = demonstrations_.from_files()
                            ? str_cat("rows ", first, " to ", state_.sft.position, " in the order of sft.files")
                            : str_cat("demonstrations of warm-up step ", state_.sft.steps);
  const SftMetrics metrics = warm_up_->step(sequences, state_, watcher_);
  const double seconds = watch.lap();
  record_step("sft", metrics_row(metrics), seconds);
  log_.warm_up_step(metrics, state_.sft.steps, config_.sft.steps, seconds);
  log_.supervised_rows_passed_over(demonstrations_.skipped());
  if (const auto warning = warm_up_->choose_demonstrations(state_)) console_.warning(*warning);
}

/// False when someone asked to stop.
bool Run::learn() {
  log_.begin_rl(state_.rl.steps);
  self_test();
  bool due = false;
  while (true) {
    const bool best = evaluator_.evaluate_if_due(*trainer_);
    checkpoints_.wait_if_ended();
    if (saved_for_interrupt()) return false;
    if (state_.rl.steps >= config_.train.steps) break;
    if (due || best) save(SaveMode::kInBackground);
    rl_step();
    due = state_.rl.steps < config_.train.steps && checkpoints_.due(state_.step());
    // Asked to stop, it is saved in a moment anyway; and so it is after an evaluation that may be the best.
    if (!due || stop_requested() || (config_.checkpoint.keeps_best() && evaluator_.due())) continue;
    save(SaveMode::kInBackground);
    due = false;
  }
  state_.phase = Phase::kDone;
  save();
  return true;
}

void Run::rl_step() {
  Stopwatch watch(policy_.model.device());
  watcher_.collecting = true;  // until all is scored
  const auto [experience, metrics] = trainer_->step(state_, watcher_);
  folder_.write([&] { watcher_.write(experience); });
  const double seconds = watch.lap();
  record_step("rl", metrics_row(metrics), seconds);
  log_.step(metrics, state_.rl.steps, seconds);
  look_after_health(metrics);
}

/// A run that is to stop is saved first, and counts on when it is resumed.
void Run::look_after_health(const StepMetrics& metrics) {
  const std::vector<std::string> alarms = health_alarms(metrics, config_, state_.rl.health);
  for (const std::string& alarm : alarms) log_.warning("step " + std::to_string(state_.step()) + ": " + alarm);
  if (alarms.empty() || config_.health.on_alarm != "stop") return;
  save();
  fail(ExitCode::kHealthGuard, "step ", state_.step(), ": ", alarms.front(), ". The run is saved in ",
       last_checkpoint().string(), " (health.on_alarm is stop); `", checkpoints_.resume_command(),
       "` goes on with it, health.on_alarm=warn beside it lets it go on");
}

/// An adapter is merged for sampling, which rounds; where too much of it is lost, the sampler applies it as training
/// does from then on, also when the run is resumed. (A sampler of low precision merges whatever the exact one does.)
void Run::self_test() {
  LogprobCheck check = trainer_->check_logprobs(state_);
  const at::ScalarType computed_in = policy_.model.compute_type();
  const double limit = config_.rollout.mismatch_limit;
  const auto lost = find_logprob_mismatch(check, limit, computed_in);
  if (lost && trainer_->sampled_weights(state_.rl).merges_adapter() && config_.rollout.weights == "exact") {
    log_.warning("self-test: with the adapter merged " + *lost +
                 "; from here on the sampler applies it as training does, which takes longer");
    state_.rl.adapter_apart = true;
    check = trainer_->check_logprobs(state_);
  }
  require_logprobs_match(check, limit, computed_in);
  console_.line(describe_logprob_check(check, objective().requirements()));
  if (const auto doubt = logprob_check_warning(check, computed_in)) log_.warning(*doubt);
}

void Run::record_step(const char* phase, Json metrics, double seconds) {
  metrics["time/step"] = seconds;
  metrics["time/checkpoint"] = std::exchange(checkpoint_seconds_, 0);
  metrics["time/checkpoint_write"] = checkpoints_.take_write_seconds();
  metrics["memory/peak_bytes"] = peak_memory_bytes(policy_.model.device());
  watcher_.add_metrics(phase, metrics);
}

void Run::save(SaveMode how) {
  Stopwatch watch(policy_.model.device());
  checkpoints_.save([this] { return checkpoint(); }, how);
  checkpoint_seconds_ += watch.lap();
}

/// The run as it is now, but for the lines of its files. Fails if weights are not finite.
Checkpoint Run::checkpoint() const {
  const MasterWeights& masters = trainer_ ? trainer_->masters() : warm_up_->masters();
  const CriticTraining* critic = trainer_ ? trainer_->critic() : nullptr;
  require_finite_weights(masters, critic ? &critic->masters() : nullptr, state_, config_, folder_.checkpoints());
  const auto of = [](const MasterWeights& all) { return [&](const Weight& weight) { return all.value_of(weight); }; };
  LoadedModel policy = policy_;
  policy.model = policy.model.has_adapter() ? policy.model.merged(masters) : policy.model.with_replaced(of(masters));
  Checkpoint checkpoint{.policy = std::move(policy),
                        .optimizer = warm_up_ ? warm_up_->optimizer_state() : trainer_->optimizer_state(),
                        .state = state_,
                        .lines = {},
                        .config = to_json(config_),
                        .run = id_,
                        .adapter = masters.value_of(policy_.model.adapter_weights())};
  if (critic != nullptr) checkpoint.critic = critic->critic().with_replaced(of(critic->masters()));
  return checkpoint;
}

/// When someone asked to stop: saves, says how to go on, and answers true.
bool Run::saved_for_interrupt() {
  if (!stop_requested()) return false;
  checkpoints_.wait();
  if (!checkpoints_.last_holds(state_)) save();
  console_.end_progress();
  log_.print_summary(prompt_sources_, demonstrations_);
  console_.result("interrupted at step " + std::to_string(state_.step()) + "; saved " + last_checkpoint().string() +
                  "\ncontinue with: " + checkpoints_.resume_command());
  return true;
}

std::filesystem::path Run::last_checkpoint() const {
  return folder_.current_path() / "checkpoints" / checkpoints_.last().filename();
}

}  // namespace keel
