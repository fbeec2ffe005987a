// How a run starts, goes on, is watched and is saved. What it does in between is in trainer.cpp.

#include <ATen/ATen.h>
#include <unistd.h>

#include <set>

#include "keel/core/interrupt.h"
#include "keel/core/shell_words.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/task/task_table.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/config/evaluation_request.h"
#include "keel/train/config/full_paths.h"
#include "keel/train/metrics/sample_notes.h"
#include "keel/train/start/agreement.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/start/used_settings.h"
#include "keel/train/trainer.h"

namespace keel {
namespace {

constexpr int64_t kSelfTestPrompts = 4;
constexpr int64_t kEvaluationSamples = 3;
constexpr const char* kReferenceFolder = "reference";
constexpr const char* kConfigHeading = "The full, resolved configuration of this run.";

std::string number(const Json& row, const char* key, int digits) {
  return row.contains(key) ? fixed(row[key].get<double>(), digits) : "-";
}

std::string interval_text(const std::optional<Interval>& interval) {
  return interval ? "[" + fixed(interval->first, 3) + ", " + fixed(interval->second, 3) + "]"
                  : "no interval: all rewards are equal";
}

/// The checkpoints that runs stand for, where a model or an adapter is asked for: so they are recorded.
Config without_runs(Config config, Console& console) {
  config.model.path = model_named(config.model.path, &console);
  config.lora.adapter = adapter_named(config.lora.adapter, &console);
  return config;
}

/// A resumed run keeps the checkpoint of another run that it was started from, also when that one has newer ones now.
void keep_checkpoints_of_runs(Config& config, const Json& saved) {
  const std::string model = saved.at("model").at("path"), adapter = saved.at("lora").at("adapter");
  if (is_checkpoint_of(model, config.model.path)) config.model.path = model;
  const std::string checkpoint = std::filesystem::path(adapter).parent_path().string();
  if (is_checkpoint_of(checkpoint, config.lora.adapter) || checkpoint == config.lora.adapter)
    config.lora.adapter = adapter;
}

/// What config.yaml says of a run: everything, and where it is, so that it can be resumed from any folder.
std::string recorded_config(Config config) {
  config.run.dir = std::filesystem::absolute(config.run.dir).lexically_normal().string();
  return to_yaml(config, kConfigHeading);
}

OptimizerOptions sft_optimizer(const SftOptions& options) {
  OptimizerOptions result;
  result.beta2 = options.beta2;
  result.max_grad_norm = options.max_grad_norm;
  return result;
}

/// Whether a resumed run may have another value there: settings that say how a run is carried out and how long it goes
/// on, what is saved and shown, and what happens where something fails; not what is learned.
bool may_change(const std::string& section, const std::string& path) {
  static const std::set<std::string> kPaths = {"run.dir",
                                               "run.threads",
                                               "data.bad_rows",
                                               "data.check",
                                               "reward.on_error",
                                               "reward.timeout",
                                               "reward.workers",
                                               "reward.python",
                                               "reward.http_retries",
                                               "train.steps",
                                               "eval.every",
                                               "rollout.max_sequences",
                                               "train.tokens_per_batch",
                                               "train.max_skipped_updates",
                                               "train.agreement_limit"};
  return section == "checkpoint" || section == "record" || kPaths.count(path) > 0;
}

/// A resumed run must be the same run. Returns what changed that may.
std::vector<std::string> require_same_config(const Config& config, const Json& saved, const std::string& place) {
  const Json now = to_json(config);
  std::vector<std::string> changes;
  std::string differences;
  for (const auto& [section, values] : now.items()) {
    for (const auto& [key, value] : values.items()) {
      const std::string path = section + "." + key;
      const bool known = saved.contains(section) && saved[section].contains(key);
      if (path == "run.dir" || (known && saved[section][key] == value)) continue;
      const std::string change =
          path + ": " + (known ? saved[section][key].dump() : "absent") + " then, " + value.dump() + " now";
      if (may_change(section, path))
        changes.push_back(change);
      else
        differences += "\n  " + change;
    }
  }
  if (!differences.empty())
    fail(ExitCode::kBadConfiguration, place, ": the run was started with other settings:", differences,
         "\nRestore them to continue it, or start a new run with another run.dir");
  return changes;
}

/// The position in the data is a number of rows: it means the same only in the same files, and nothing at all in files
/// with more rows or fewer. An evaluation on other rows says nothing about progress. Returns the settings whose rows
/// have changed.
std::vector<const char*> require_same_data(const Problems& problems, const TrainState& state, bool accept_changes,
                                           const std::filesystem::path& checkpoint) {
  std::vector<const char*> changed;
  if (problems.fingerprint() != state.data) changed.push_back("data.files");
  if (problems.eval_fingerprint() != state.eval_data) changed.push_back("data.eval_files");
  if (problems.rows() != state.data_rows)
    fail(ExitCode::kBadInput, "data.files: the files have ", problems.rows(), " rows, and had ", state.data_rows,
         " at the checkpoint ", checkpoint.string(), ", so that its position in them means nothing; restore them, or ",
         "start a new run with another run.dir, which may start from the checkpoint (model.path, or lora.adapter)");
  if (!changed.empty() && !accept_changes)
    fail(ExitCode::kBadInput, changed.front(), ": the rows are not those that the checkpoint ", checkpoint.string(),
         std::string(changed.front()) == "data.files" ? " was trained on" : " was evaluated on",
         "; restore them or, where you mended some, say so with --changed-data: the run then goes on ",
         "with the rows as they are now");
  return changed;
}

/// Goes on with a checkpoint's adapter on the network that it was trained on.
void put_on_its_base(LoadedModel& policy, const Config& config, const TrainState& state,
                     const std::filesystem::path& checkpoint) {
  CausalLm base = starting_model(config, policy.model.device()).model;
  if (base_checksum(base) != state.base_checksum)
    fail(ExitCode::kBadInput, "model.path: ", config.model.path,
         " has other weights or another config.json than when the run was started, and the adapter in ",
         checkpoint.string(), " belongs to those; restore the model");
  policy.adapter = put_adapter(checkpoint, base);
  policy.model = std::move(base);
}

/// Refuses a model that cannot be trained in this machine's memory; a machine that promises more than it has would end
/// the process without a word.
void require_memory(const ModelConfig& shape, const Config& config) {
  constexpr double kGiB = 1 << 30;
  // Weight, gradient, two moments, of which an adapter needs the last three for itself alone; the same of a critic's
  // own body; the reference's weight, which an adapter shares with its base.
  const double floats_per_parameter = (config.lora.used() ? 1 : 4) + (config.critic.own_body() ? 4 : 0) +
                                      (config.reference.kl_coefficient > 0 && !config.lora.used() ? 1 : 0);
  const double parameters = static_cast<double>(shape.parameter_count());
  const double wanted = sizeof(float) * floats_per_parameter * parameters;
  const double have = static_cast<double>(machine_memory_bytes());
  if (wanted > have)
    fail(ExitCode::kBadConfiguration, "model: ", format_count(shape.parameter_count()), " parameters (hidden_size ",
         shape.hidden_size, ", layers ", shape.num_hidden_layers, ") need ", fixed(wanted / kGiB, 1),
         " GiB to be trained, this machine has ", fixed(have / kGiB, 1), " GiB; choose smaller sizes");
}

}  // namespace

Trainer::Trainer(const Config& config, LoadedModel policy, Problems problems, RunFolder folder, TrainState state,
                 Console& console)
    : config_(config),
      console_(console),
      device_(policy.model.device()),
      objective_(make_objective(config.objective, static_cast<double>(longest_completion(config)), config.reference)),
      policy_(std::move(policy)),
      problems_(std::move(problems)),
      folder_(std::move(folder)),
      state_(state) {
  problems_.training().seek(state_.prompts);
  for (const std::string& warning : problems_.warnings()) console_.warning(warning);
  if (!objective_.adapt_target_kept) return;
  first_thresholds_ = thresholds_of(objective_.method.region);
  if (state_.delta_low > 0) set_thresholds(objective_, {state_.delta_low, state_.delta_high});
}

std::unique_ptr<Trainer> Trainer::start(const Config& given, bool replace, Console& console) {
  throw_if_stopped();
  const Config config = with_full_paths(without_runs(given, console));
  use_threads(config.run.threads);
  const at::Device device = open_device(config.run.device);
  const ModelConfig shape = starting_shape(config);
  // All that can refuse comes before the folder, so that a refused run leaves nothing behind and replaces nothing.
  RunFolder::require_free(config.run.dir, replace);
  if (device.is_cpu()) require_memory(shape, config);
  LoadedModel policy = starting_model(config, device);
  TrainState state;
  if (config.lora.used()) state.base_checksum = base_checksum(policy.model);
  add_starting_adapter(policy, config);
  Problems problems(config, policy);
  state.data = problems.fingerprint();
  state.data_rows = problems.rows();
  state.eval_data = problems.eval_fingerprint();
  problems.training().next(1);  // files without a prompt that fits are refused now
  if (config.eval.prompts > 0) problems.held_out(1);
  throw_if_stopped();
  wait_for_saving();
  RunFolder folder = RunFolder::create(config.run.dir, replace, recorded_config(config));
  folder.note_used(used_settings(config, policy, problems));
  std::unique_ptr<Trainer> trainer(
      new Trainer(config, std::move(policy), std::move(problems), std::move(folder), state, console));
  trainer->begin_phase(config.sft.steps > 0 ? Phase::kSft : Phase::kRl);
  return trainer;
}

std::unique_ptr<Trainer> Trainer::resume(const Config& given, Console& console, Accepted accepted) {
  Config config = with_full_paths(given);
  use_threads(config.run.threads);
  const at::Device device = open_device(config.run.device);
  const std::filesystem::path folder = config.run.dir;
  std::vector<std::string> notes;
  const std::filesystem::path newest = newest_checkpoint(folder / "checkpoints", notes);
  for (const std::string& note : notes) console.warning(note);
  if (newest.empty()) {
    std::error_code ignored;
    const bool exists = std::filesystem::exists(folder / "config.yaml", ignored);
    fail(ExitCode::kBadInput, "run.dir: ", folder.string(), " has no sound checkpoint to resume from; ",
         exists ? "start the run anew with --overwrite instead of --resume"
                : "no run was started there, so leave --resume away or correct run.dir (run.dir=FOLDER, where a run "
                  "was moved)");
  }
  set_resumable();
  throw_if_stopped();
  HeldFolder held = RunFolder::claim(folder);
  Checkpoint checkpoint = load_checkpoint(newest, device);
  keep_checkpoints_of_runs(config, checkpoint.config);
  std::vector<std::string> changes = require_same_config(config, checkpoint.config, newest.string());
  choose_dtype(config.checkpoint, checkpoint.policy);
  if (config.lora.used()) put_on_its_base(checkpoint.policy, config, checkpoint.state, newest);
  Problems problems(config, checkpoint.policy);
  for (const char* changed : require_same_data(problems, checkpoint.state, accepted.changed_data, newest))
    changes.push_back(std::string(changed) + ": the rows are not those of before (--changed-data)");
  checkpoint.state.data = problems.fingerprint();
  checkpoint.state.eval_data = problems.eval_fingerprint();
  std::optional<CausalLm> reference;
  if (config.reference.kl_coefficient > 0 && checkpoint.state.rl_steps > 0)
    reference = load_reference(folder / kReferenceFolder, checkpoint.policy);
  if (!accepted.damaged_rows) RunFolder::require_unchanged(held, checkpoint.lines);
  throw_if_stopped();
  wait_for_saving();
  finish_save(newest);
  notes.clear();
  RunFolder reopened = RunFolder::reopen(std::move(held), checkpoint.lines, recorded_config(config), notes);
  reopened.note_used(used_settings(config, checkpoint.policy, problems));
  std::unique_ptr<Trainer> trainer(new Trainer(config, std::move(checkpoint.policy), std::move(problems),
                                               std::move(reopened), checkpoint.state, console));
  trainer->reference_ = std::move(reference);
  const Phase phase = checkpoint.state.phase;
  // A finished run goes on when it is asked for more steps than it made.
  const bool goes_on = phase == Phase::kDone && checkpoint.state.rl_steps < config.train.steps;
  if (checkpoint.critic) trainer->begin_critic(std::move(checkpoint.critic));
  trainer->begin_phase(goes_on ? Phase::kRl : phase);
  trainer->optimizer_->load(checkpoint.optimizer, newest.string());
  if (trainer->critic_) trainer->critic_->load(checkpoint.optimizer, newest.string());
  trainer->last_checkpoint_ = newest;
  console.line("resumed from " + newest.string());
  for (const std::string& note : notes) {
    console.warning(note);
    trainer->folder_.log(note);
  }
  for (const std::string& change : changes) {  // config.yaml says what holds now, log.txt from when on
    console.line("  " + change);
    trainer->folder_.log("resumed at step " + std::to_string(checkpoint.state.step) + " with " + change);
  }
  return trainer;
}

void Trainer::begin_phase(Phase phase) {
  state_.phase = phase;
  optimizer_.emplace(policy_.model.trainable(), phase == Phase::kSft ? sft_optimizer(config_.sft) : config_.optimizer);
  if (phase == Phase::kRl) keep_reference();
  if (phase == Phase::kRl && !critic_ && config_.critic.exists()) begin_critic(std::nullopt);
}

/// A critic that was saved goes on learning; a new one starts from the policy as it is when RL starts.
void Trainer::begin_critic(std::optional<Critic> saved) {
  critic_.emplace(saved ? std::move(*saved) : Critic::of(policy_.model.merged(), config_.critic.own_body()),
                  config_.critic, critic_optimizer_options(config_.critic, config_.optimizer));
}

/// Remembers the policy as it is when RL starts, in memory and beside the checkpoints: it must be there before the
/// first of them that says that RL has begun. A run that is resumed later than that has loaded it.
void Trainer::keep_reference() {
  if (reference_ || !objective_.requirements().reference_logp) return;
  reference_ = policy_.model.frozen();
  write_to_folder([&] { save_reference(folder_.path() / kReferenceFolder, *reference_, policy_); });
}

void Trainer::self_test() {
  PromptStream& stream = problems_.training();
  const uint64_t position = stream.position();
  const std::vector<Prompt> prompts = stream.next(kSelfTestPrompts);
  stream.seek(position);
  const CausalLm sampler = sampling_weights(policy_.model, config_.rollout.weights);
  // Weights rounded for sampling are compared with themselves: that they differ from the trainer's is their purpose.
  const CausalLm& trainer = config_.rollout.weights == "exact" ? policy_.model : sampler;
  const SamplingRequest request = sampling_request();
  const Agreement agreement = sampler_trainer_agreement(sampler, trainer, policy_.tokenizer, prompts, request,
                                                        config_.train.tokens_per_batch);
  require_agreement(agreement, config_.train.agreement_limit);
  const auto figure = [](const char* text, double number) {
    char shown[32];
    snprintf(shown, sizeof(shown), "%.1e", number);
    return text + std::string(shown);
  };
  std::string text = "self-test: sampler and trainer agree on " + std::to_string(agreement.tokens) +
                     figure(" tokens, largest |difference of log p| ", agreement.max_difference);
  if (request.top_k > 0) text += figure(", of the likeliest tokens ", agreement.topk_difference);
  if (request.hidden_states) text += figure(", largest total variation ", agreement.total_variation);
  console_.line(text);
}

bool Trainer::evaluation_due() const {
  if (config_.eval.prompts == 0 || state_.last_evaluation == state_.step) return false;
  const int64_t done = state_.rl_steps, every = config_.eval.every;
  return done == 0 || done >= config_.train.steps || (every > 0 && done % every == 0);
}

void Trainer::evaluate_if_due() {
  if (!evaluation_due()) return;
  const HeldOut held_out = problems_.held_out(config_.eval.prompts);
  const std::vector<Prompt>& prompts = held_out.prompts;
  if (prompts.empty()) return;  // files without a part to evaluate on
  console_.progress("evaluating on " + std::to_string(prompts.size()) + " held-out prompts");
  Evaluation result = evaluate(policy_, prompts, problems_.reward(), evaluation_request(config_), stop_requested);
  if (result.count < static_cast<int64_t>(prompts.size()))
    return;  // told to stop: measured again when the run is resumed
  note_scores(result.scores, result.rollouts.size());
  state_.last_evaluation = state_.step;
  Json row = {{"phase", "eval"}, {"step", state_.step}, {"updates", state_.updates}};
  write_evaluation(result, row);
  if (held_out.left_out.too_long > 0) {
    row["eval/too_long"] = held_out.left_out.too_long;
    row["eval/max_prompt_tokens"] = problems_.prompt_limit();
  }
  if (held_out.left_out.bad > 0) row["eval/bad_rows"] = held_out.left_out.bad;
  folder_.add_metrics(row);
  for (int64_t i = 0; i < std::min(kEvaluationSamples, result.count); ++i) {
    const int64_t first = i * config_.eval.samples;
    Json sample = sample_row("eval", state_.step, prompts[i], result.rollouts[first], policy_.tokenizer);
    if (!result.verdicts[first].reward) sample["reward"] = nullptr;
    folder_.add_sample(sample);
  }
  tell_evaluation(result, held_out.note());
  if (state_.rl_steps == 0) first_evaluation_ = result;
  last_evaluation_ = std::move(result);
}

void Trainer::tell_evaluation(const Evaluation& result, const std::string& left_out) {
  if (!left_out.empty() && !std::exchange(told_of_left_out_, true)) console_.warning("evaluation: " + left_out);
  const int64_t unjudged = result.statistics.all.unjudged;
  const std::string place = "step " + std::to_string(state_.step) + ": ";
  if (unjudged > 0)
    console_.warning(place + "no reward function judged " + std::to_string(unjudged) + " of " +
                     std::to_string(result.verdicts.size()) + " completions of held-out prompts; they are left out");
  if (result.judged())
    console_.line(place + "held-out " + result.mean_name() + " " + fixed(result.mean, 3) + "  " +
                  interval_text(result.interval()) + "  on " + std::to_string(result.count) + " prompts");
}

void Trainer::record_step(Json values, const char* phase, double seconds) {
  Json row = {{"phase", phase}, {"step", state_.step}, {"updates", state_.updates}};
  row.update(values);
  row["time/step"] = seconds;
  row["time/checkpoint"] = checkpoint_seconds_;
  row["memory/peak_bytes"] = peak_memory_bytes(device_);
  checkpoint_seconds_ = 0;
  folder_.add_metrics(row);
  std::string line;
  if (std::string(phase) == "sft") {
    line = "warm-up " + std::to_string(state_.sft_steps) + "  loss " + number(row, "sft/loss_average", 3) +
           (state_.noisy ? "  noisy demonstrations" : "");
  } else {
    line = "RL " + std::to_string(state_.rl_steps) + "/" + std::to_string(config_.train.steps) + "  reward " +
           number(row, "reward/mean", 3) + "  entropy " + number(row, "policy/entropy", 3) + "  masked " +
           number(row, "trust_region/masked", 4) + "  |pi-mu| " + number(row, "mismatch/abs_prob_mean", 5) +
           "  length " + number(row, "completion/length_mean", 1) + "  " + fixed(seconds, 2) + " s";
  }
  console_.progress(line);
  folder_.log(line);
}

/// A checkpoint of broken weights would, by and by, push the sound ones out.
void Trainer::require_finite_weights() const {
  std::vector<NamedTensor> parameters = policy_.model.trainable();
  if (critic_)
    for (NamedTensor& parameter : critic_->critic().parameters())
      parameters.push_back({"the critic's " + parameter.name, parameter.value});
  for (const NamedTensor& parameter : parameters)
    if (!parameter.value.isfinite().all().item<bool>())
      fail(ExitCode::kHealthGuard, "step ", state_.step, ": ", parameter.name,
           " holds numbers that are not finite, so ", "nothing was saved; the checkpoints in ",
           folder_.checkpoints().string(), " are sound. Lower ", lr_option(),
           " in a new run; it may start from one of them (model.path)");
}

/// The setting that governs the learning rate of the present phase.
const char* Trainer::lr_option() const {
  if (state_.phase == Phase::kSft) return "sft.lr";
  return critic_ ? "optimizer.lr or critic.lr" : "optimizer.lr";
}

void Trainer::save() {
  Stopwatch watch(device_);
  require_finite_weights();
  write_to_folder([&] { write_checkpoint(); });
  set_resumable();
  checkpoint_seconds_ += watch.lap();
}

void Trainer::write_checkpoint() {
  const RunFolder::Lines lines = folder_.sync();
  Checkpoint checkpoint{policy_, optimizer_->state(), state_, lines, to_json(config_)};
  if (critic_) {
    checkpoint.critic = critic_->critic();
    for (NamedTensor& moment : critic_->state()) checkpoint.optimizer.push_back(std::move(moment));
  }
  // Someone may have tidied up, and a checkpoint without its reference could not be resumed from.
  const std::filesystem::path reference = folder_.path() / kReferenceFolder;
  if (reference_ && !path_exists(reference)) save_reference(reference, *reference_, policy_);
  last_checkpoint_ = save_checkpoint(folder_.checkpoints(), checkpoint, config_.checkpoint.keep);
}

/// What fails because the folder is not the run's own any more ends the run for that reason.
void Trainer::write_to_folder(const std::function<void()>& write) {
  folder_.require_own();
  try {
    write();
  } catch (const std::exception&) {
    folder_.require_own();
    throw;
  }
}

/// Between steps: a run that writes where nobody looks is ended, and one that could not be resumed is saved.
void Trainer::look_after_folder() {
  folder_.require_own();
  if (last_checkpoint_.empty() || path_exists(last_checkpoint_)) return;
  console_.warning(last_checkpoint_.string() + " was removed while the run went on; saving again");
  save();
}

/// Saves what the run knows where it still can: in the folder, wherever that is now, or in a new one beside its name.
void Trainer::end_without_folder(const FolderLost& loss) {
  console_.end_progress();
  std::string command;
  try {
    const std::string beside = (std::filesystem::path(config_.run.dir) / "").parent_path().string();
    config_.run.dir = loss.now() ? loss.now()->string() : beside + ".rescued-" + std::to_string(getpid());
    if (!loss.now()) folder_ = folder_.copy_to(config_.run.dir, recorded_config(config_));
    require_finite_weights();
    write_checkpoint();
    command = "keel train " + shell_word((std::filesystem::path(config_.run.dir) / "config.yaml").string()) +
              " --resume" + (loss.now() ? " run.dir=" + shell_word(config_.run.dir) : "");
  } catch (const std::exception& error) {
    fail(ExitCode::kHealthGuard, loss.what(), ". What it knows could not be saved in ", config_.run.dir,
         " either: ", error.what());
  }
  fail(ExitCode::kHealthGuard, loss.what(), ". It is saved up to step ", state_.step, " in ", config_.run.dir,
       "; continue with: ", command);
}

/// What was counted since the run was started or resumed.
void Trainer::tell_at_the_end() {
  std::vector<std::string> sentences = tally_.warnings();
  const std::string left_out = problems_.left_out_sentence(passed_over_);
  if (!left_out.empty()) sentences.push_back("training: " + left_out);
  for (const std::string& sentence : sentences) {
    console_.warning(sentence);
    folder_.log(sentence);
  }
}

/// When someone asked to stop: saves, says how to go on, and answers true.
bool Trainer::saved_for_interrupt() {
  if (!stop_requested()) return false;
  save();
  console_.end_progress();
  tell_at_the_end();
  console_.line("interrupted at step " + std::to_string(state_.step) + "; saved " + last_checkpoint_.string() +
                "\ncontinue with: keel train " + shell_word((folder_.path() / "config.yaml").string()) + " --resume");
  return true;
}

}  // namespace keel
