#include "keel/train/open_run.h"

#include <cstdio>
#include <random>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/link.h"
#include "keel/core/interrupt.h"
#include "keel/core/tensor/device.h"
#include "keel/evaluation/evaluation.h"
#include "keel/model/folder/model_folder.h"
#include "keel/record/run_ownership.h"
#include "keel/record/tokens/token_file.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/config/absolute_paths.h"
#include "keel/train/start/planned_steps.h"
#include "keel/train/start/resolved_config.h"
#include "keel/train/start/resources.h"
#include "keel/train/start/starting_model.h"

namespace keel {
namespace {

/// Fails if --overwrite would remove the model, adapter or data that the run starts from, even through a link.
void refuse_to_replace_inputs(Config config) {
  const auto refuse = [&](const char* key, const std::string& path, const char* fix) {
    if (!path.empty() && is_inside(path, config.run.dir))
      fail(ExitCode::kBadConfiguration, key, " is ", path, ", in the folder of the run that would be replaced, ",
           config.run.dir, "; choose another run.dir, or ", fix);
  };
  constexpr const char* kConvert = "`keel convert` the model to another folder first";
  refuse("model.path", config.model.path, kConvert);
  refuse("lora.adapter", config.lora.adapter, kConvert);
  for (const std::vector<std::string>* files : data_file_lists(config))
    for (const std::filesystem::path& file : expand_globs(*files))  // other files in the folder stay
      if (RunFolder::belongs_to_run(file))
        refuse("a file of rows", file.string(), "copy the file to another folder first");
}

/// Warns if the adapter's base is a checkpoint that its own run may remove.
void warn_of_temporary_base(const Config& config, Console& console) {
  if (config.lora.used() && is_checkpoint(config.model.path))
    console.warning(config.model.path +
                    " is a checkpoint that its run removes if it continues (checkpoint.keep), and resuming " +
                    "this run needs it. Unless that run has ended, start from a copy made with `keel convert`");
}

/// Warns if the run starts from merged weights that have lost a part of their adapter.
void warn_of_rounded_base(const Config& config, Console& console) {
  if (!config.model.path.empty() && has_rounded_adapter(locate_model(config.model.path)))
    console.warning(
        "model.path: the weights in " + config.model.path +
        " have an adapter merged and are rounded, which loses small updates. Fix: continue the adapter with " +
        "its base as model.path and lora.adapter=" + config.model.path +
        "/adapter, or start from an unrounded copy made with `keel convert` and --dtype float32");
}

/// Warns if lora.dropout differs from the dropout that the adapter was trained with, which PEFT would use.
void warn_of_changed_dropout(const Config& config, Console& console) {
  if (config.lora.adapter.empty()) return;
  const std::filesystem::path file = std::filesystem::path(config.lora.adapter) / "adapter_config.json";
  const Json trained_with = json_if_any(file).value("lora_dropout", Json(0));
  if (trained_with.is_number() && trained_with != config.lora.dropout)
    console.warning(file.string() + " has lora_dropout " + trained_with.dump() + "; this run uses lora.dropout " +
                    Json(config.lora.dropout).dump());
}

std::string new_run_id() {
  std::random_device entropy;
  char digits[17];
  snprintf(digits, sizeof(digits), "%08x%08x", entropy(), entropy());
  return digits;
}

}  // namespace

Config resolve_run_paths(Config config, Console& console) {
  config.model.path = resolve_model(config.model.path, &console);
  config.lora.adapter = resolve_adapter(config.lora.adapter, &console);
  return config;
}

OpenedRun open_new_run(const Config& given, bool replace, Console& console) {
  throw_if_stopped();
  Config config = given;
  const at::Device device = open_run_device(config.run, console);
  config = with_absolute_paths(resolve_run_paths(config, console));
  const at::ScalarType type = resolve_precision(config.run, device);
  const ModelConfig shape = starting_model_config(config);
  if (config.record.tokens != "none") require_token_files();
  Trackers trackers(config, console);
  const bool replaces_run = RunFolder::require_free(config.run.dir, replace);
  if (replaces_run) refuse_to_replace_inputs(config);
  if (replaces_run) RunFolder::lock(config.run.dir);  // fails before the model is loaded if the run is running
  if (replaces_run && !replace)
    console.line("replacing the run in " + config.run.dir + ", which ended before its first checkpoint");
  warn_of_temporary_base(config, console);
  warn_of_rounded_base(config, console);
  warn_of_changed_dropout(config, console);
  require_memory_for_weights({config, shape, type, device});
  Crc32c base;
  LoadedModel policy = load_starting_model(config, base_load_options(config, device, type, base));
  TrainState state{.phase = config.sft.has_steps() ? Phase::kSft : Phase::kRl};
  PromptSources prompt_sources = PromptSources::for_run(config, policy);
  Demonstrations demonstrations(config, policy);
  if (config.has_rl()) require_best_metric(config, prompt_sources);
  state.rl.data = prompt_sources.data();
  state.sft.data = demonstrations.data();
  demonstrations.require_rows();
  if (config.has_rl()) prompt_sources.require_prompt();
  plan_steps(config, prompt_sources);
  plan_sft_steps(config, demonstrations);
  const RunSizes sizes = run_sizes(config, shape, type, device, prompt_sources, demonstrations);
  require_resource(memory_resource(sizes, estimate_run_memory(sizes)), console);
  require_resource(disk_resource(sizes, saved_type(policy)), console);
  if (config.lora.used() || !config.model.path.empty()) state.base_checksum = base.value();
  add_starting_adapter(policy, config);
  MasterWeights masters = policy.model.set_compute_type(type);
  throw_if_stopped();
  wait_for_saving();
  const std::string id = new_run_id();
  const Json resolved = resolved_config(config, policy, prompt_sources, demonstrations);
  trackers.open(config.run.dir, resolved, id);
  RunFolder folder = RunFolder::create(config.run.dir, replace, recorded_config(config));
  console.set_log(folder.log_writer());
  folder.record_used_settings(resolved, id);
  return {.config = std::move(config),
          .policy = std::move(policy),
          .prompt_sources = std::move(prompt_sources),
          .demonstrations = std::move(demonstrations),
          .folder = std::move(folder),
          .trackers = std::move(trackers),
          .state = std::move(state),
          .id = id,
          .auxiliary = {.masters = std::move(masters)}};
}

std::string recorded_config(Config config) {
  config.run.dir = std::filesystem::absolute(config.run.dir).lexically_normal().string();
  return to_yaml(config, std::string(RunFolder::kConfigHeading));
}

std::string best_metric_key(const std::string& metric, const PromptSources& prompt_sources) {
  if (metric != "auto") return metric;
  return std::string("eval/") + mean_name(prompt_sources.reward().is_binary());
}

void require_best_metric(const Config& config, const PromptSources& prompt_sources) {
  const std::string &metric = config.checkpoint.best_metric, mean = best_metric_key("auto", prompt_sources);
  const bool is_mean = metric == "eval/accuracy" || metric == "eval/reward";
  if (is_mean && metric != mean)
    fail(ExitCode::kBadConfiguration, "checkpoint.best_metric is ", metric,
         ", but this run's evaluations do not have it; expected ", mean, ", or auto");
}

}  // namespace keel
