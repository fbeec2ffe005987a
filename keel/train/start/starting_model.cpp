#include "keel/train/start/starting_model.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/core/files/atomic_directory.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/model/folder/adapter_config.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/model/folder/model_folder.h"
#include "keel/task/task_table.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/checkpoint/run_models.h"

namespace keel {
namespace {

/// Reads the configuration in a checkpoint, without the checks of a new run.
Config read_saved_config(const std::filesystem::path& checkpoint) {
  Config config;
  OptionTable table;
  config.describe(table);
  table.load({.value = saved_config(checkpoint), .lines = {}, .file = (checkpoint / "state.json").string()});
  return config;
}

/// Resolves model.path; a run folder means its newest checkpoint.
std::string model_path(const Config& config) { return resolve_model(config.model.path, nullptr); }

}  // namespace

void check_model_and_data(const Config& config) {
  for (const auto& [key, files] : {std::pair{"data.files", &config.data.files}, {"sft.files", &config.sft.files}})
    if (!files->empty() && config.model.path.empty())
      fail(ExitCode::kBadConfiguration, key,
           " is set, but model.path is not; set model.path to a model with a tokenizer (a new network knows only the "
           "vocabulary of the built-in task)");
  if (config.data.files.empty() && !config.data.eval_files.empty())
    fail(ExitCode::kBadConfiguration,
         "data.eval_files is set, but data.files is not; set data.files (`keel eval` does not need it)");
}

LoadedModel load_starting_model(const Config& config, const LoadOptions& options) {
  check_model_and_data(config);
  const std::string path = model_path(config);
  LoadedModel start = [&] {
    const auto random = [&](const ModelConfig& shape) { return ModelWeights::random(shape, config.run.seed, options); };
    if (config.model.random_weights) return load_with_new_weights(path, random);
    if (!path.empty()) return load_verified_model(path, options);
    Tokenizer tokenizer = make_task(config.task)->tokenizer();
    return LoadedModel{.model = random(starting_model_config(config)), .tokenizer = std::move(tokenizer)};
  }();
  if (start.stop_ids.empty() && start.tokenizer.eos_id()) start.stop_ids.push_back(*start.tokenizer.eos_id());
  return start;
}

LoadOptions base_load_options(const Config& config, at::Device device, at::ScalarType type, Crc32c& checksum) {
  return {device, config.lora.used() ? type : at::kFloat,
          [&](std::span<const std::byte> bytes) { checksum.update(bytes); }};
}

bool load_base_and_adapter(LoadedModel& policy, const Config& config, at::Device device, at::ScalarType type,
                           const std::filesystem::path& checkpoint) {
  Crc32c checksum;
  ModelWeights base = load_starting_model(config, base_load_options(config, device, type, checksum)).model;
  if (checksum.value() != load_state(checkpoint).base_checksum) return false;
  policy.adapter = set_adapter(checkpoint, base);
  policy.model = std::move(base);
  return true;
}

at::Device open_run_device(RunOptions& run, Console& console, bool resumes) {
  const bool prefers_cpu = run.device == "cpu" && !resumes;
  const bool chooses = run.device == "auto";
  if (chooses) run.device = has_gpu() ? "cuda" : "cpu";
  use_threads(run.threads);
  use_deterministic_reductions(run.deterministic && run.device != "cpu");
  const at::Device device = open_device(run.device);
  console.line("device: " + describe_device(device));
  if (chooses && run.device == "cpu" && is_gpu_build())
    console.warning(
        "this build can use a GPU, but CUDA finds none, so the run uses the CPU. Fix: check nvidia-smi and "
        "CUDA_VISIBLE_DEVICES, or set run.device=cpu");
  if (prefers_cpu && has_gpu())
    console.warning("run.device is cpu, but this machine has a GPU: " + describe_device({at::kCUDA, 0}) +
                    ". run.device=cuda is many times faster");
  return device;
}

at::ScalarType resolve_precision(RunOptions& run, at::Device device) {
  const at::ScalarType type = compute_type(run.precision, device);
  run.precision = precision_name(type);
  return type;
}

LoadedModel starting_model_without_weights(const Config& config) {
  const std::filesystem::path path = locate_model(model_path(config));
  if (config.model.random_weights) return load_with_new_weights(path, ModelWeights::zeros);
  return is_folder(path) ? load_folder_without_weights(path) : load_starting_model(config, {at::kCPU});
}

ModelConfig starting_model_config(const Config& config) {
  if (!config.model.path.empty()) return load_model_config(model_path(config));
  return model_config(config.model, make_task(config.task)->tokenizer().size());
}

void add_starting_adapter(LoadedModel& base, const Config& config) {
  const LoraOptions& lora = config.lora;
  if (!lora.used()) return;
  if (lora.adapter.empty()) {
    base.model.add_adapter(lora, config.run.seed);
    base.adapter = to_adapter_json(lora);
  } else {
    const std::string adapter = resolve_adapter(lora.adapter, nullptr);
    require_adapter_base(model_path(config), adapter, "lora.adapter");
    base.adapter = read_adapter(adapter, base.model);
    base.adapter["lora_dropout"] = lora.dropout;
  }
  base.adapter["base_model_name_or_path"] = config.model.path;
}

void verify_checksums(const std::filesystem::path& folder) {
  if (!path_exists(folder / "manifest.json")) return;
  if (const auto damage = find_manifest_mismatch(folder, {}))
    fail(ExitCode::kBadInput, folder.string(), " is damaged: ", *damage,
         "; restore it from a copy or, if you changed it on purpose, remove its manifest.json");
}

LoadedModel load_verified_model(const std::string& name, const LoadOptions& options) {
  const std::filesystem::path path = locate_model(name);
  verify_checksums(path);
  const std::optional<WeightSource> trained = float32_weights(path);
  return trained ? load_folder(path, options, &*trained) : load_model(name, options);
}

LoadedModel load_trained_model(const std::string& name, const std::string& adapter, const LoadOptions& options,
                               Console& console) {
  if (!adapter.empty()) {
    require_adapter_base(name, adapter, "--adapter");
    LoadedModel loaded = load_verified_model(name, options);
    read_adapter(adapter, loaded.model);
    return loaded;
  }
  const std::filesystem::path checkpoint = locate_model(name);
  if (!has_rounded_adapter(checkpoint)) return load_verified_model(name, options);
  verify_checksums(checkpoint);
  const Config config = read_saved_config(checkpoint);
  std::string problem = "it has other weights than when the run was started";
  try {
    LoadedModel loaded = load_folder_without_weights(checkpoint);
    const ModelConfig merged = loaded.model.config();  // config.json names the adapter's base
    if (load_base_and_adapter(loaded, config, options.device, options.type, checkpoint)) {
      loaded.model = loaded.model.with_config(merged);
      return loaded;
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    problem = error.what();
  }
  console.warning("the base of the adapter in " + checkpoint.string() + " cannot be used: " + problem +
                  ". The merged weights of the checkpoint are used instead; they are rounded, which loses small " +
                  "updates. Fix: restore " + config.model.path + ", or name a copy with --model BASE --adapter " +
                  adapter_folder(checkpoint).string());
  return load_verified_model(name, options);
}

std::string adapter_fingerprint(const std::filesystem::path& adapter) {
  const std::filesystem::path weights = adapter / "adapter_model.safetensors";
  return path_exists(weights) ? "sha256:" + sha256_of_file(weights) : "";
}

ExecutionOptions execution_options(const Config& config) {
  return {config.rollout.bitwise, config.train.recompute_activations};
}

Dropout next_dropout(const Config& config, const TrainState& state) {
  return {.probability = config.lora.dropout,
          .seed = config.run.seed,
          .update = static_cast<uint64_t>(state.sft.steps + state.rl.updates)};
}

}  // namespace keel
