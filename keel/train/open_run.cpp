#include "keel/train/open_run.h"

#include "keel/core/interrupt.h"
#include "keel/core/tensor/device.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/config/full_paths.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/start/used_settings.h"

namespace keel {
namespace {

constexpr const char* kConfigHeading = "The full, resolved configuration of this run.";

/// The checkpoints that runs stand for, where a model or an adapter is asked for: so they are recorded.
Config without_runs(Config config, Console& console) {
  config.model.path = model_named(config.model.path, &console);
  config.lora.adapter = adapter_named(config.lora.adapter, &console);
  return config;
}

}  // namespace

OpenedRun open_new_run(const Config& given, bool replace, Console& console) {
  throw_if_stopped();
  Config config = with_full_paths(without_runs(given, console));
  use_threads(config.run.threads);
  const at::Device device = open_device(config.run.device);
  const at::ScalarType type = chosen_precision(config.run, device);
  const ModelConfig shape = starting_shape(config);
  RunFolder::require_free(config.run.dir, replace);
  if (device.is_cpu()) require_memory(shape, config);
  LoadedModel policy = starting_model(config, device);
  TrainState state{.phase = config.sft.steps > 0 ? Phase::kSft : Phase::kRl};
  if (config.lora.used()) state.base_checksum = base_checksum(policy.model);
  add_starting_adapter(policy, config);
  policy.model.compute_in(type);
  Problems problems(config, policy);
  state.data = problems.fingerprint();
  state.data_rows = problems.rows();
  state.eval_data = problems.eval_fingerprint();
  problems.training().next(1);  // files without a prompt that fits are refused now
  problems.training().seek(0);
  if (config.eval.prompts > 0) problems.held_out(1);
  throw_if_stopped();
  wait_for_saving();
  RunFolder folder = RunFolder::create(config.run.dir, replace, recorded_config(config));
  folder.note_used(used_settings(config, policy, problems));
  return {.config = std::move(config),
          .policy = std::move(policy),
          .problems = std::move(problems),
          .folder = std::move(folder),
          .state = std::move(state)};
}

std::string recorded_config(Config config) {
  config.run.dir = std::filesystem::absolute(config.run.dir).lexically_normal().string();
  return to_yaml(config, kConfigHeading);
}

}  // namespace keel
