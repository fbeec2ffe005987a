#include "keel/train/open_run.h"

#include <map>
#include <set>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/interrupt.h"
#include "keel/core/str_cat.h"
#include "keel/core/tensor/device.h"
#include "keel/record/run_ownership.h"
#include "keel/record/tokens/token_file.h"
#include "keel/reward/reward_options.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/config/absolute_paths.h"
#include "keel/train/start/planned_steps.h"
#include "keel/train/start/resolved_config.h"
#include "keel/train/start/resources.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/trainer.h"

namespace keel {
namespace {

/// If model.path or lora.adapter names a run, keeps the checkpoint that was resolved when this run started.
void keep_resolved_checkpoints(Config& config, const Json& saved) {
  const std::string model = saved.at("model").at("path"), adapter = saved.at("lora").at("adapter");
  if (is_checkpoint_of(model, config.model.path)) config.model.path = model;
  const std::string checkpoint = std::filesystem::path(adapter).parent_path().string();
  if (is_checkpoint_of(checkpoint, config.lora.adapter) || checkpoint == config.lora.adapter)
    config.lora.adapter = adapter;
}

/// Replaces run.device=auto by the device of the checkpoint.
void keep_device(RunOptions& run, const std::filesystem::path& checkpoint) {
  const std::string saved = saved_config(checkpoint).at("run").at("device");
  if (run.device == "auto") run.device = saved;
  if (run.device == "cuda" && saved == "cuda" && !has_gpu())
    fail(ExitCode::kBadConfiguration, "run.device: the run in ", run.dir, " used a GPU, and there is none that this ",
         "build can use; `keel doctor` says why. To continue on the CPU, start a new run from its weights: model.path=",
         checkpoint.string(), " with another run.dir");
}

/// Returns whether a resumed run may change this setting: run length, execution, output and error handling, but nothing
/// else that affects training.
bool may_change(const std::string& section, const std::string& key) {
  static const std::map<std::string, std::set<std::string>> kKeys = {
      {"run", {"dir", "threads", "deterministic"}},
      {"data", {"bad_rows"}},
      {"reward", {"on_error", "timeout", "workers", "python"}},
      {"train", {"data_epochs", "tokens_per_batch", "recompute_activations"}},
      {"eval", {"every"}},
      {"sft", {"data_epochs", "eval_every"}},
      {"rollout", {"max_sequences"}}};
  const auto keys = kKeys.find(section);
  return section == "checkpoint" || section == "record" || section == "health" ||
         (keys != kKeys.end() && keys->second.count(key) > 0);
}

std::string last_component(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Returns whether a setting only has new directories for the same file names, as in a moved project. Contents are
/// compared later.
bool is_moved_path(const std::string& setting, const Json& then, const Json& now) {
  static const std::set<std::string> kPathSettings = {
      "model.path", "lora.adapter", "data.files", "data.eval_files", "sft.files", "sft.eval_files", "reward.functions"};
  if (kPathSettings.count(setting) == 0) return false;
  if (then.is_string() && now.is_string()) {
    const auto name = setting == "reward.functions" ? short_name : last_component;
    return name(then.get<std::string>()) == name(now.get<std::string>());
  }
  if (!then.is_array() || then.size() != now.size()) return false;
  for (size_t i = 0; i < then.size(); ++i)
    if (!is_moved_path(setting, then[i], now[i])) return false;
  return true;
}

/// Fails if settings that must not change have changed. Returns the other changes.
std::vector<std::string> require_same_config(const Config& config, const Json& saved, const std::string& path) {
  const Json now = to_json(config), defaults = to_json(Config{});
  std::vector<std::string> changes;
  std::string differences;
  for (const auto& [section, values] : now.items()) {
    for (const auto& [key, value] : values.items()) {
      const std::string setting = section + "." + key;
      const bool known = saved.contains(section) && saved[section].contains(key);
      const bool is_length = setting == "train.steps" || (setting == "sft.steps" && !config.sft.files.empty());
      // A setting that did not exist when the run was started had its default.
      const Json& then = known ? saved[section][key] : defaults[section][key];
      if (setting == "run.dir" || is_length || then == value) continue;
      const std::string change =
          setting + ": " + (known ? saved[section][key].dump() : "absent") + " then, " + value.dump() + " now";
      if (may_change(section, key) || (known && is_moved_path(setting, saved[section][key], value)))
        changes.push_back(change);
      else
        differences += "\n  " + change;
    }
  }
  if (!differences.empty())
    fail(ExitCode::kBadConfiguration, path, ": the run was started with other settings:", differences,
         "\nRestore them to continue the run, or start a new run with another run.dir");
  return changes;
}

/// Fails if the run had an RL phase and now has none, or the reverse: their optimizer states differ.
void require_same_phases(const Config& config, const Json& saved, const std::filesystem::path& checkpoint) {
  Config before = config;
  before.sft.files = saved.at("sft").at("files").get<std::vector<std::string>>();
  before.train.steps = saved.at("train").at("steps").get<int64_t>();
  before.train.data_epochs.reset();
  if (before.has_rl() && !config.has_rl())
    fail(ExitCode::kBadConfiguration, "train.steps is 0, but the run in ", config.run.dir, " has an RL phase of ",
         before.train.steps, " steps. Continue it with `keel train --resume`, or use another run.dir for SFT alone ",
         "(`keel sft`)");
  if (config.has_rl() && !before.has_rl())
    fail(ExitCode::kBadConfiguration, "train.steps: the run in ", config.run.dir, " has no RL phase. ",
         "Start a new run from its checkpoint: model.path=", checkpoint.string(), " with another run.dir");
}

/// Describes changes of the run's length.
std::vector<std::string> describe_length_changes(const Config& config, const Json& saved, const TrainState& state) {
  std::vector<std::string> changes;
  const auto note = [&](const char* setting, int64_t before, int64_t now) {
    if (before != now) changes.push_back(str_cat(setting, ": ", before, " then, ", now, " now"));
  };
  const int64_t sft_before = saved.at("sft").at("steps").get<int64_t>();
  if (sft_before != config.sft.steps && config.has_rl() && state.phase != Phase::kSft)
    fail(ExitCode::kBadConfiguration, "sft.steps was ", sft_before, " and is ", config.sft.steps,
         ", but the SFT phase of the run is over. Restore it (or sft.data_epochs)");
  note("sft.steps", sft_before, config.sft.steps);
  note("train.steps", saved.at("train").at("steps").get<int64_t>(), config.train.steps);
  return changes;
}

/// Converts data_epochs to steps again, because the rows may have changed. A finished SFT phase keeps its length.
void recompute_steps(Config& config, const PromptSources& prompt_sources, const Demonstrations& demonstrations,
                     const Checkpoint& checkpoint) {
  if (config.train.data_epochs) config.train.steps = 0;
  plan_steps(config, prompt_sources);
  if (!config.sft.data_epochs) return;
  const Json& saved = checkpoint.config.at("sft");
  const bool sft_done = config.has_rl() && checkpoint.state.phase != Phase::kSft;
  config.sft.steps =
      sft_done && saved.at("data_epochs") == *config.sft.data_epochs ? saved.at("steps").get<int64_t>() : 0;
  if (config.sft.steps == 0) plan_sft_steps(config, demonstrations, checkpoint.state.sft);
}

/// Fails if the data files have another number of rows, because the position in them would be invalid, or other rows
/// without `accept_changes`. Returns the settings whose rows have changed.
std::vector<const char*> require_same_data(const PromptSources& prompt_sources, const Demonstrations& demonstrations,
                                           const TrainState& state, bool accept_changes,
                                           const std::filesystem::path& checkpoint) {
  std::vector<const char*> changed;
  const auto require_row_count = [&](const char* files, uint64_t rows, uint64_t before) {
    if (rows != before)
      fail(ExitCode::kBadInput, files, ": the files have ", rows, " rows, but had ", before, " at the checkpoint ",
           checkpoint.string(), ", so its position in them is invalid. Restore them, or start a new run with another ",
           "run.dir, which may start from the checkpoint (model.path, or lora.adapter)");
  };
  const DataIdentity sft = demonstrations.data(), rl = prompt_sources.data();
  if (sft.train != state.sft.data.train) changed.push_back("sft.files");
  if (sft.eval != state.sft.data.eval) changed.push_back("sft.eval_files");
  if (rl.train != state.rl.data.train) changed.push_back("data.files");
  if (rl.eval != state.rl.data.eval) changed.push_back("data.eval_files");
  require_row_count("sft.files", sft.rows, state.sft.data.rows);
  require_row_count("data.files", rl.rows, state.rl.data.rows);
  if (!changed.empty() && !accept_changes)
    fail(ExitCode::kBadInput, changed.front(), ": the rows are not those that the checkpoint ", checkpoint.string(),
         std::string(changed.front()).ends_with(".files") ? " was trained on" : " was evaluated on",
         ". Restore them, or accept the current rows with --changed-data");
  return changed;
}

bool names_checkpoint(const std::filesystem::path& path) {
  return is_checkpoint_name(path.filename().string()) && path.parent_path().filename() == "checkpoints";
}

/// Loads the base model with the checkpoint's adapter.
void require_base_and_adapter(LoadedModel& policy, const Config& config, at::Device device, at::ScalarType type,
                              const std::filesystem::path& checkpoint) {
  if (names_checkpoint(config.model.path) && !path_exists(config.model.path))
    fail(ExitCode::kBadInput, "model.path: ", config.model.path,
         ", the checkpoint that this run trains an adapter on, is gone: its run has removed it (checkpoint.keep) or ",
         "was moved. Set its new path with model.path=FOLDER. If it is lost, start a new run from ",
         checkpoint.string(), ", whose weights have the adapter merged");
  if (!load_base_and_adapter(policy, config, device, type, checkpoint))
    fail(ExitCode::kBadInput, "model.path: ", config.model.path,
         " has other weights or another config.json than when the run was started, and the adapter in ",
         checkpoint.string(), " needs the original ones. Restore the model");
}

/// Fails if model.path now names another model than the run started from, which would be recorded wrongly. The run does
/// not need the model itself, because all weights were trained.
void require_same_model(const Config& config, const Checkpoint& checkpoint) {
  const std::string& path = config.model.path;
  if (checkpoint.config.at("model").at("path") == path || !path_exists(path)) return;
  Crc32c checksum;
  load_starting_model(config, {at::kCPU, at::kFloat, [&](auto bytes) { checksum.update(bytes); }});
  if (checksum.value() != checkpoint.state.base_checksum)
    fail(ExitCode::kBadConfiguration, "model.path: ", path,
         " has other weights or another config.json than what the run was started from, ",
         checkpoint.config.at("model").at("path").get<std::string>(),
         "; name that, or start a new run with another run.dir");
}

/// The value of a setting in used.json; null if it is missing.
Json used_setting(const std::filesystem::path& run, const char* setting) {
  return json_if_any(run / "used.json").value(setting, Json());
}

/// Fails if lora.adapter now names another adapter than the run started from.
void require_same_start_adapter(const Config& config, const Checkpoint& checkpoint) {
  const std::string& path = config.lora.adapter;
  const Json then = used_setting(config.run.dir, kAdapterFingerprintKey);
  const std::string now = path.empty() ? "" : adapter_fingerprint(path);
  const std::string started_from = checkpoint.config.at("lora").at("adapter");
  if (path == started_from || then.is_null() || now.empty() || then == now) return;
  fail(ExitCode::kBadConfiguration, "lora.adapter: ", path, " has other weights than what the run was started from, ",
       started_from, "; name that, or start a new run with another run.dir");
}

void require_unchanged_rows(const std::filesystem::path& run, const std::filesystem::path& checkpoint) {
  for (const std::string& change : find_changed_rows(run, checkpoint))
    fail(ExitCode::kBadInput, change,
         ". Restore the file from a copy, or continue with the unchanged rows with --damaged-rows, which keeps a copy ",
         "of the damaged file");
}

/// The newest valid checkpoint of the run in this folder.
std::filesystem::path checkpoint_to_resume(const std::filesystem::path& folder, Console& console) {
  std::vector<std::string> notes;
  std::filesystem::path newest = newest_checkpoint(folder / "checkpoints", notes);
  for (const std::string& note : notes) console.warning(note);
  if (!newest.empty()) return newest;
  fail(ExitCode::kBadInput, "run.dir: ", folder.string(), " has no valid checkpoint to resume from. ",
       RunFolder::is_unsaved(folder) ? "Start the run again without --resume"
       : RunFolder::contains_run(folder)
           ? "Start the run again with --overwrite instead of --resume"
           : "No run was started there: remove --resume, or correct run.dir (run.dir=FOLDER if the run was moved)");
}

}  // namespace

OpenedRun open_saved_run(const Config& given, const AcceptedChanges& accepted, Console& console) {
  Config config = with_absolute_paths(given);
  if (config.record.tokens != "none") require_token_files();
  if (!is_folder(config.run.dir)) checkpoint_to_resume(config.run.dir, console);  // fails with a message
  LockedDirectory directory = RunFolder::lock(config.run.dir);
  const std::filesystem::path newest = checkpoint_to_resume(config.run.dir, console);
  Trackers trackers(config, console);
  set_resumable();
  throw_if_stopped();
  keep_device(config.run, newest);
  const at::Device device = open_run_device(config.run, console, /*resumes=*/true);
  const at::ScalarType type = resolve_precision(config.run, device);
  require_memory_for_weights({config, load_model_config(newest.string()), type, device});
  Checkpoint checkpoint = load_checkpoint(newest, device);
  keep_resolved_checkpoints(config, checkpoint.config);
  require_same_phases(config, checkpoint.config, newest);
  std::vector<std::string> changes = require_same_config(config, checkpoint.config, newest.string());
  if (config.lora.used())
    require_base_and_adapter(checkpoint.policy, config, device, type, newest);
  else
    require_same_model(config, checkpoint);
  require_same_start_adapter(config, checkpoint);
  MasterWeights masters = checkpoint.policy.model.set_compute_type(type);
  PromptSources prompt_sources = PromptSources::for_run(config, checkpoint.policy);
  Demonstrations demonstrations(config, checkpoint.policy);
  if (config.has_rl()) require_best_metric(config, prompt_sources);
  for (const char* changed : require_same_data(prompt_sources, demonstrations, checkpoint.state, accepted.data, newest))
    changes.push_back(std::string(changed) + ": the rows are not those of before (--changed-data)");
  recompute_steps(config, prompt_sources, demonstrations, checkpoint);
  for (std::string& change : describe_length_changes(config, checkpoint.config, checkpoint.state))
    changes.push_back(std::move(change));
  const ModelConfig& shape = checkpoint.policy.model.config();
  const RunSizes sizes = run_sizes(config, shape, type, device, prompt_sources, demonstrations);
  require_resource(memory_resource(sizes, estimate_run_memory(sizes)), console);
  require_resource(disk_resource(sizes, saved_type(checkpoint.policy)), console);
  checkpoint.state.rl.data = prompt_sources.data();
  checkpoint.state.sft.data = demonstrations.data();
  std::optional<ModelWeights> reference;
  if (current_objective(config, {}).requirements().reference_logp && checkpoint.state.rl.steps > 0)
    reference = load_reference(std::filesystem::path(config.run.dir) / kReferenceFolder, checkpoint.policy);
  if (!accepted.damaged_rows) require_unchanged_rows(config.run.dir, newest);
  throw_if_stopped();
  wait_for_saving();
  finish_save(newest, checkpoint.state.best);
  const Json resolved = resolved_config(config, checkpoint.policy, prompt_sources, demonstrations);
  const std::string id = checkpoint.run;
  trackers.open(config.run.dir, resolved, id);
  std::vector<std::string> notes;
  RunFolder folder = RunFolder::reopen(std::move(directory), checkpoint.lines, recorded_config(config), notes);
  console.set_log(folder.log_writer());
  for (const std::string& note : folder.record_used_settings(resolved, id)) notes.push_back(note);
  TrainState& state = checkpoint.state;
  // A finished run continues if the configuration now has more steps.
  if (state.phase == Phase::kDone && config.has_rl() && state.rl.steps < config.train.steps) state.phase = Phase::kRl;
  if (state.phase == Phase::kDone && !config.has_rl() && !demonstrations.done(config.sft, state.sft))
    state.phase = Phase::kSft;
  return {.config = std::move(config),
          .policy = std::move(checkpoint.policy),
          .prompt_sources = std::move(prompt_sources),
          .demonstrations = std::move(demonstrations),
          .folder = std::move(folder),
          .trackers = std::move(trackers),
          .state = std::move(checkpoint.state),
          .id = id,
          .checkpoint = newest,
          .auxiliary = {.masters = std::move(masters),
                        .reference = std::move(reference),
                        .critic = std::move(checkpoint.critic)},
          .optimizer = std::move(checkpoint.optimizer),
          .warnings = std::move(notes),
          .changes = std::move(changes)};
}

}  // namespace keel
