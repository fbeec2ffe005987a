// One RL step of the quickstart, split into its stages: build/bench/bin/step [key=value ...], for example
// run.device=cuda, run.threads=2 or model.hidden_size=256.

#include <cstdio>

#include "bench/median.h"
#include "keel/core/options/read_config.h"
#include "keel/core/tensor/device.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/trainer.h"

using namespace keel;

int main(int argc, char** argv) {
  ConfigTree tree{.value = to_json(quickstart_config()), .lines = {}, .file = "quickstart"};
  for (int i = 1; i < argc; ++i) apply_override(tree, argv[i]);
  std::vector<std::string> notes;
  Config config = load_config(tree, notes);
  use_threads(config.run.threads);
  LoadedModel policy = load_starting_model(config, {open_device(config.run.device)});
  MasterWeights masters = policy.model.set_compute_type(resolve_precision(config.run, policy.model.device()));
  PromptSources prompt_sources(config, policy);
  TrainState state;
  Trainer trainer(config, policy, prompt_sources, {.masters = std::move(masters)});
  constexpr int kWarmUp = 3, kSteps = 20;
  std::vector<double> rollout, train;
  for (int i = 0; i < kWarmUp + kSteps; ++i) {
    const StepMetrics numbers = trainer.step(state).metrics;
    if (i < kWarmUp) continue;
    rollout.push_back(numbers.rollout_seconds);
    train.push_back(numbers.train_seconds);
  }
  std::printf("%s, %s, %ld completions per step, %ld updates: rollout %.1f ms, train %.1f ms (median of %d steps)\n",
              describe_device(policy.model.device()).c_str(), config.run.precision.c_str(),
              static_cast<long>(config.rollouts_per_step()), static_cast<long>(config.updates_per_step()),
              median(rollout) * 1e3, median(train) * 1e3, kSteps);
}
