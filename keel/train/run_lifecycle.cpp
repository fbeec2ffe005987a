// How a run starts, goes on, is watched and is saved. What it does in between is in trainer.cpp.

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "keel/core/device.h"
#include "keel/core/interrupt.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/task/tasks.h"
#include "keel/train/sample_notes.h"
#include "keel/train/self_test.h"
#include "keel/train/stopwatch.h"
#include "keel/train/trainer.h"

namespace keel {
namespace {

constexpr int64_t kSelfTestPrompts = 4;
constexpr int64_t kEvaluationSamples = 3;
constexpr const char* kReferenceFolder = "reference";
constexpr const char* kConfigHeading = "The full, resolved configuration of this run.";

std::string fixed(double value, int digits) {
  char text[32];
  snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string number(const Json& row, const char* key, int digits) {
  return row.contains(key) ? fixed(row[key].get<double>(), digits) : "-";
}

/// A path as one word of a command line that can be copied.
std::string shell_word(const std::string& path) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c > 0x7F || std::strchr("/._-+=,:@%", c); };
  if (std::all_of(path.begin(), path.end(), plain)) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
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

/// A resumed run must be the same run: only how long it goes on, what is saved and what is shown may change.
void require_same_config(const Config& config, const Json& saved, const std::string& place) {
  const Json now = to_json(config);
  std::string differences;
  for (const auto& [section, values] : now.items()) {
    for (const auto& [key, value] : values.items()) {
      const std::string path = section + "." + key;
      const bool may_change = section == "checkpoint" || section == "record" || path == "run.dir" ||
                              path == "train.steps" || path == "eval.every" || path == "rollout.max_sequences";
      const bool known = saved.contains(section) && saved[section].contains(key);
      if (may_change || (known && saved[section][key] == value)) continue;
      differences +=
          "\n  " + path + ": " + (known ? saved[section][key].dump() : "absent") + " then, " + value.dump() + " now";
    }
  }
  if (!differences.empty())
    fail(ExitCode::kBadConfiguration, place, ": the run was started with other settings:", differences,
         "\nRestore them to continue it, or start a new run with another run.dir");
}

/// Refuses a model that cannot be trained in this machine's memory; a machine that promises more than it has would end
/// the process without a word.
void require_memory(const ModelConfig& shape, bool has_reference) {
  constexpr double kGiB = 1 << 30;
  const double floats_per_parameter = has_reference ? 5 : 4;  // weight, gradient, two moments; the reference's weight
  constexpr double kFloatsPerAngle = 4;                       // cos and sin, and the angles while they are made
  const double parameters = static_cast<double>(shape.parameter_count());
  const double angles = static_cast<double>(shape.max_position_embeddings) * static_cast<double>(shape.head_dim);
  const double wanted = sizeof(float) * (floats_per_parameter * parameters + kFloatsPerAngle * angles);
  const double have = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (wanted > have)
    fail(ExitCode::kBadConfiguration, "model: ", format_count(shape.parameter_count()), " parameters (hidden_size ",
         shape.hidden_size, ", layers ", shape.num_hidden_layers, ", max_positions ", shape.max_position_embeddings,
         ") need ", fixed(wanted / kGiB, 1), " GiB to be trained, this machine has ", fixed(have / kGiB, 1),
         " GiB; choose smaller sizes");
}

}  // namespace

Trainer::Trainer(const Config& config, CausalLm model, RunFolder folder, TrainState state, Console& console)
    : config_(config),
      console_(console),
      device_(model.device()),
      task_(make_task(config.task)),
      tokenizer_(task_->tokenizer()),
      objective_(make_objective(config.objective, static_cast<double>(max_new_tokens()), config.reference)),
      model_(std::move(model)),
      prompts_([this](uint64_t index) {
        return task_prompt(*task_, tokenizer_, config_.task.name, config_.run.seed, index, Split::kTrain);
      }),
      reward_([this](const Prompt& prompt, std::string_view completion) {
        return task_->check({prompt.text, prompt.answer}, completion);
      }),
      folder_(std::move(folder)),
      state_(state) {
  prompts_.seek(state_.prompts);
  if (!objective_.adapt_target_kept) return;
  first_thresholds_ = thresholds_of(objective_.method.region);
  if (state_.delta_low > 0) set_thresholds(objective_, {state_.delta_low, state_.delta_high});
}

std::unique_ptr<Trainer> Trainer::start(const Config& config, bool replace, Console& console) {
  use_threads(config.run.threads);
  const at::Device device = open_device(config.run.device);
  const std::unique_ptr<Task> task = make_task(config.task);
  const ModelConfig shape = model_config(config.model, task->tokenizer().size());
  // All that can refuse comes before the folder, so that a refused run leaves nothing behind and replaces nothing.
  RunFolder::require_free(config.run.dir, replace);
  if (device.is_cpu()) require_memory(shape, config.reference.kl_coefficient > 0);
  CausalLm model = CausalLm::random(shape, config.run.seed, device);
  RunFolder folder = RunFolder::create(config.run.dir, replace, recorded_config(config));
  std::unique_ptr<Trainer> trainer(new Trainer(config, std::move(model), std::move(folder), TrainState{}, console));
  trainer->begin_phase(config.sft.steps > 0 ? Phase::kSft : Phase::kRl);
  return trainer;
}

std::unique_ptr<Trainer> Trainer::resume(const Config& config, Console& console) {
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
  FileHandle claim = RunFolder::claim(folder);
  Checkpoint checkpoint = load_checkpoint(newest, device);
  require_same_config(config, checkpoint.config, newest.string());
  std::optional<CausalLm> reference;
  if (config.reference.kl_coefficient > 0 && checkpoint.state.rl_steps > 0)
    reference = load_reference(folder / kReferenceFolder, device);
  finish_save(newest);
  RunFolder reopened = RunFolder::reopen(folder, std::move(claim), checkpoint.files, recorded_config(config));
  std::unique_ptr<Trainer> trainer(
      new Trainer(config, std::move(checkpoint.model), std::move(reopened), checkpoint.state, console));
  trainer->reference_ = std::move(reference);
  const Phase phase = checkpoint.state.phase;
  // A finished run goes on when it is asked for more steps than it made.
  const bool goes_on = phase == Phase::kDone && checkpoint.state.rl_steps < config.train.steps;
  trainer->begin_phase(goes_on ? Phase::kRl : phase);
  trainer->optimizer_->load(checkpoint.optimizer, newest.string());
  trainer->last_checkpoint_ = newest;
  set_resumable();
  console.line("resumed from " + newest.string());
  return trainer;
}

void Trainer::begin_phase(Phase phase) {
  state_.phase = phase;
  optimizer_.emplace(model_.parameters(), phase == Phase::kSft ? sft_optimizer(config_.sft) : config_.optimizer);
  if (phase == Phase::kRl) keep_reference();
}

/// Remembers the policy as it is when RL starts, in memory and beside the checkpoints: it must be there before the
/// first of them that says that RL has begun. A run that is resumed later than that has loaded it.
void Trainer::keep_reference() {
  if (reference_ || !objective_.requirements().reference_logp) return;
  const at::NoGradGuard no_grad;
  reference_ = CausalLm::from_tensors(model_.config(), model_.parameters(), device_, "the reference policy");
  for (const NamedTensor& weight : reference_->parameters()) weight.value.set_requires_grad(false);
  save_reference(folder_.path() / kReferenceFolder, *reference_, tokenizer_);
}

void Trainer::self_test() {
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < kSelfTestPrompts; ++i)
    prompts.push_back(task_prompt(*task_, tokenizer_, config_.task.name, config_.run.seed, i, Split::kTrain));
  const SamplingRequest request{.samples_per_prompt = config_.rollout.samples_per_prompt,
                                .temperature = config_.rollout.temperature,
                                .max_new_tokens = max_new_tokens(),
                                .seed = config_.run.seed};
  const Agreement agreement = sampler_trainer_agreement(sampling_weights(model_, config_.rollout.weights), tokenizer_,
                                                        prompts, request, config_.train.tokens_per_batch);
  require_agreement(agreement, config_.train.agreement_limit);
  char text[160];
  snprintf(text, sizeof(text), "self-test: sampler and trainer agree on %ld tokens, largest |difference of log p| %.1e",
           static_cast<long>(agreement.tokens), agreement.max_difference);
  console_.line(text);
}

bool Trainer::evaluation_due() const {
  if (config_.eval.prompts == 0 || state_.last_evaluation == state_.step) return false;
  const int64_t done = state_.rl_steps, every = config_.eval.every;
  return done == 0 || done >= config_.train.steps || (every > 0 && done % every == 0);
}

void Trainer::evaluate_if_due() {
  if (!evaluation_due()) return;
  console_.progress("evaluating on " + std::to_string(config_.eval.prompts) + " held-out prompts");
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < config_.eval.prompts; ++i)
    prompts.push_back(task_prompt(*task_, tokenizer_, config_.task.name, config_.run.seed, static_cast<uint64_t>(i),
                                  Split::kHeldOut));
  Evaluation result =
      evaluate(model_, tokenizer_, prompts, reward_, evaluation_request(config_, max_new_tokens()), stop_requested);
  if (result.count < config_.eval.prompts) return;  // told to stop: measured again when the run is resumed
  state_.last_evaluation = state_.step;
  Json row = {{"phase", "eval"}, {"step", state_.step}, {"updates", state_.updates}};
  write_evaluation(result, row);
  folder_.add_metrics(row);
  for (int64_t i = 0; i < std::min(kEvaluationSamples, result.count); ++i)
    folder_.add_sample(
        sample_row("eval", state_.step, prompts[i], result.rollouts[i * config_.eval.samples], tokenizer_));
  console_.line("step " + std::to_string(state_.step) + ": held-out accuracy " + fixed(result.accuracy, 3) + "  [" +
                fixed(result.low, 3) + ", " + fixed(result.high, 3) + "]  on " + std::to_string(result.count) +
                " prompts");
  if (state_.rl_steps == 0) first_evaluation_ = result;
  last_evaluation_ = std::move(result);
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
  for (const NamedTensor& parameter : model_.parameters())
    if (!parameter.value.isfinite().all().item<bool>())
      fail(ExitCode::kHealthGuard, "step ", state_.step, ": ", parameter.name,
           " holds numbers that are not finite, so ", "nothing was saved; the checkpoints in ",
           folder_.checkpoints().string(), " are sound. Lower ", lr_option());
}

/// The setting that governs the learning rate of the present phase.
const char* Trainer::lr_option() const { return state_.phase == Phase::kSft ? "sft.lr" : "optimizer.lr"; }

void Trainer::save() {
  Stopwatch watch(device_);
  require_finite_weights();
  const RunFolder::Sizes sizes = folder_.sync();
  last_checkpoint_ =
      save_checkpoint(folder_.checkpoints(), {model_, optimizer_->state(), state_, sizes, to_json(config_)}, tokenizer_,
                      config_.checkpoint.keep);
  set_resumable();
  checkpoint_seconds_ += watch.lap();
}

/// When someone asked to stop: saves, says how to go on, and answers true.
bool Trainer::saved_for_interrupt() {
  if (!stop_requested()) return false;
  save();
  console_.end_progress();
  console_.line("interrupted at step " + std::to_string(state_.step) + "; saved " + last_checkpoint_.string() +
                "\ncontinue with: keel train " + shell_word((folder_.path() / "config.yaml").string()) + " --resume");
  return true;
}

}  // namespace keel
