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
      log_(console, config_),
      state_(std::move(opened.state)),
      watcher_(config_, policy_, state_, folder_, trackers_, log_),
      id_(std::move(opened.id)),
      evaluator_(config_, policy_, prompt_sources_, state_, log_, watcher_),
      checkpoints_(config_, folder_, log_, console_, std::move(opened.checkpoint)) {
  if (config_.record.tensorboard) folder_.write_events();
  trackers_.add_existing_rows(folder_.path());
  for (const std::string& warning : prompt_sources_.warnings()) console_.warning(warning);
  for (const std::string& warning : demonstrations_.warnings()) console_.warning(warning);
  begin_phase(state_.phase, std::move(opened.auxiliary));
  const std::string resumed = checkpoints_.last().string();
  if (resumed.empty()) return;
  if (sft_trainer_)
    sft_trainer_->load_optimizer(opened.optimizer, resumed);
  else
    trainer_->load_optimizer(opened.optimizer, state_, resumed);
  folder_.remove_tokens_after(state_.step());
  console_.line("resumed from " + resumed);
  for (const std::string& warning : opened.warnings) log_.warning(warning);
  for (const std::string& change : opened.changes)
    console_.line("resumed at step " + std::to_string(state_.step()) + " with " + change);
  checkpoints_.check_best(state_, evaluator_.best_metric());
}

/// Creates the trainer of the phase. The reference is a copy of the policy at the start of RL. It is saved before the
/// first RL checkpoint, so that a resumed run can load it.
void Run::begin_phase(Phase phase, AuxiliaryWeights saved) {
  state_.phase = phase;
  if (phase == Phase::kSft || !config_.has_rl()) {
    if (!sft_trainer_) sft_trainer_.emplace(config_, policy_, *saved.masters, demonstrations_);
    return;
  }
  if (sft_trainer_) saved.masters = sft_trainer_->masters();
  sft_trainer_.reset();
  const bool new_reference = phase == Phase::kRl && !saved.reference;
  trainer_.emplace(config_, policy_, prompt_sources_, std::move(saved));
  if (!new_reference || !trainer_->reference()) return;
  checkpoints_.wait();
  const ModelWeights& reference = trainer_->reference()->weights();
  folder_.write([&] { save_reference(folder_.path() / kReferenceFolder, reference, policy_, id_); });
}

ExitCode Run::run() {
  try {
    const ExitCode code = run_until_done();
    trackers_.end(code == ExitCode::kDone ? "finished" : "stopped");
    return code;
  } catch (const RunWriteError& error) {
    console_.end_progress();
    fail(error.code(), error.what(), ". ", checkpoints_.describe_recovery(state_.step()));
  }
}

ExitCode Run::run_until_done() {
  const LiveLine live(console_, [this] { return log_.live_text(watcher_.meters->text()); });
  try {
    return run_phases();
  } catch (const Interrupted&) {  // before any update of the step, so the state is that of the previous step
    save_if_stopped();
    return ExitCode::kInterrupted;
  } catch (const Error& error) {
    // NaN or a full disk (kHealthGuard): the state may be invalid, or cannot be saved.
    if (!watcher_.collecting || error.code() == ExitCode::kHealthGuard) throw;
    throw Error(error.code(), error.what() + save_after_failure());
  } catch (const std::exception&) {  // for example, out of memory
    console_.end_progress();
    if (watcher_.collecting)
      console_.result("stopped by an error" + save_after_failure());
    else if (state_.step() > 0)
      console_.result("stopped by an error. " + checkpoints_.describe_recovery(state_.step()));
    throw;
  }
}

/// Saves the run after a failure before any update of a step, when the state is still that of the previous step.
/// Returns a sentence to append to the error message.
std::string Run::save_after_failure() {
  if (state_.step() == 0) return "";  // there is nothing to save
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
  if (save_if_stopped()) return ExitCode::kInterrupted;
  if (state_.phase == Phase::kSft && !run_sft()) return ExitCode::kInterrupted;
  if (state_.phase == Phase::kRl && !run_rl()) return ExitCode::kInterrupted;
  if (const auto damage = find_damage(checkpoints_.last()))
    fail(ExitCode::kHealthGuard, checkpoints_.last().string(), ": the last checkpoint does not verify: ", *damage);
  console_.end_progress();
  log_.print_summary(prompt_sources_, demonstrations_);
  return ExitCode::kDone;
}

/// Returns false if a stop was requested.
bool Run::run_sft() {
  bool save_due = false;
  while (true) {
    evaluator_.measure_loss_if_due(*sft_trainer_, demonstrations_);
    if (sft_trainer_->done(state_)) begin_phase(config_.has_rl() ? Phase::kRl : Phase::kDone);
    checkpoints_.wait_if_ended();
    if (save_if_stopped()) return false;
    if (state_.phase != Phase::kSft) break;
    if (save_due) save(SaveMode::kInBackground);
    sft_step();
    save_due = checkpoints_.due(state_.step());
  }
  save();
  return true;
}

void Run::sft_step() {
  Stopwatch watch(policy_.model.device());
  const uint64_t first = state_.sft.position;
  watcher_.collecting = true;
  const std::vector<SupervisedSequence> sequences = demonstrations_.next(state_.sft);
  watcher_.collecting = false;
  watcher_.trained_on = demonstrations_.from_files()
                            ? str_cat("rows ", first, " to ", state_.sft.position, " in the order of sft.files")
                            : str_cat("demonstrations of SFT step ", state_.sft.steps);
  const SftMetrics metrics = sft_trainer_->step(sequences, state_, watcher_);
  const double seconds = watch.lap();
  record_step("sft", metrics_row(metrics), seconds);
  log_.sft_step(metrics, state_.sft.steps, config_.sft.steps, seconds);
  log_.skipped_sft_rows(demonstrations_.skipped());
  if (const auto warning = sft_trainer_->maybe_switch_to_noisy(state_)) console_.warning(*warning);
}

/// Returns false if a stop was requested.
bool Run::run_rl() {
  log_.begin_rl(state_.rl.steps);
  check_logprobs();
  bool save_due = false;
  while (true) {
    const bool best = evaluator_.evaluate_if_due(*trainer_);
    checkpoints_.wait_if_ended();
    if (save_if_stopped()) return false;
    if (state_.rl.steps >= config_.train.steps) break;
    if (save_due || best) save(SaveMode::kInBackground);
    rl_step();
    save_due = state_.rl.steps < config_.train.steps && checkpoints_.due(state_.step());
    // A requested stop saves anyway. An evaluation that is due comes first, because it may make this step the best.
    if (!save_due || stop_requested() || (config_.checkpoint.keeps_best() && evaluator_.due())) continue;
    save(SaveMode::kInBackground);
    save_due = false;
  }
  state_.phase = Phase::kDone;
  save();
  return true;
}

void Run::rl_step() {
  Stopwatch watch(policy_.model.device());
  watcher_.collecting = true;  // until the first update
  const auto [experience, metrics] = trainer_->step(state_, watcher_);
  folder_.write([&] { watcher_.write(experience); });
  const double seconds = watch.lap();
  record_step("rl", metrics_row(metrics), seconds);
  log_.step(metrics, state_.rl.steps, seconds);
  check_health(metrics);
}

/// Logs health alarms. With health.on_alarm=stop, an alarm saves and stops the run.
void Run::check_health(const StepMetrics& metrics) {
  const std::vector<std::string> alarms = health_alarms(metrics, config_, state_.rl.health);
  for (const std::string& alarm : alarms) log_.warning("step " + std::to_string(state_.step()) + ": " + alarm);
  if (alarms.empty() || config_.health.on_alarm != "stop") return;
  save();
  fail(ExitCode::kHealthGuard, "step ", state_.step(), ": ", alarms.front(),
       ". Stopped because health.on_alarm is stop. The run is saved in ", last_checkpoint().string(),
       ". Continue with: ", checkpoints_.resume_command(), " (add health.on_alarm=warn to ignore alarms)");
}

/// Compares sampler and trainer before RL.
void Run::check_logprobs() {
  const LogprobCheck check = trainer_->check_logprobs(state_);
  const at::ScalarType dtype = policy_.model.compute_type();
  require_logprobs_match(check, config_.rollout.mismatch_limit, dtype);
  console_.line(describe_logprob_check(check, objective().requirements()));
  if (const auto warning = logprob_check_warning(check, dtype)) log_.warning(*warning);
}

void Run::record_step(const char* phase, Json metrics, double seconds) {
  metrics["time/step"] = seconds;
  metrics["time/checkpoint"] = std::exchange(checkpoint_seconds_, 0);
  metrics["time/checkpoint_write"] = checkpoints_.take_write_seconds();
  const at::Device device = policy_.model.device();
  metrics["memory/peak_bytes"] = peak_memory_bytes(device);
  if (device.is_cuda()) metrics["memory/device_peak_bytes"] = peak_reserved_bytes(device);
  watcher_.add_metrics(phase, metrics);
}

void Run::save(SaveMode mode) {
  Stopwatch watch(policy_.model.device());
  checkpoints_.save([this] { return checkpoint(); }, mode);
  checkpoint_seconds_ += watch.lap();
}

/// The current state without the checksums of the run's files. Fails if any weight is NaN or infinite.
Checkpoint Run::checkpoint() const {
  const MasterWeights& masters = trainer_ ? trainer_->masters() : sft_trainer_->masters();
  const CriticTraining* critic = trainer_ ? trainer_->critic() : nullptr;
  require_finite_weights(masters, critic ? &critic->masters() : nullptr, state_, config_, folder_.checkpoints());
  const auto values_of = [](const MasterWeights& all) {
    return [&](const Weight& weight) { return all.value_of(weight); };
  };
  LoadedModel policy = policy_;
  // Merges in the device's memory one layer at a time, and keeps the merged layers in host memory.
  const auto to_host = [](const Tensor& weight) { return weight.cpu(); };
  policy.model = policy.model.has_adapter() ? policy.model.merged(masters, to_host)
                                            : policy.model.with_replaced(values_of(masters));
  Checkpoint checkpoint{.policy = std::move(policy),
                        .optimizer = sft_trainer_ ? sft_trainer_->optimizer_state() : trainer_->optimizer_state(),
                        .state = state_,
                        .lines = {},
                        .config = to_json(config_),
                        .run = id_,
                        .adapter = masters.value_of(policy_.model.adapter_weights())};
  if (critic != nullptr) checkpoint.critic = critic->critic().with_replaced(values_of(critic->masters()));
  return checkpoint;
}

/// If a stop was requested: saves, prints how to resume, and returns true.
bool Run::save_if_stopped() {
  if (!stop_requested()) return false;
  checkpoints_.wait();
  if (!checkpoints_.last_has_state(state_)) save();
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
