// One RL step of the quickstart, split into its stages: build/bench/bin/step [key=value ...], for example
// run.device=cuda, run.threads=2 or model.hidden_size=256.

#include <cstdio>
#include <filesystem>

#include "bench/median.h"
#include "keel/core/files/file.h"
#include "keel/core/options/read_config.h"
#include "keel/core/tensor/device.h"
#include "keel/train/trainer.h"

namespace {

using namespace keel;

}  // namespace

int main(int argc, char** argv) {
  ConfigTree tree{.value = to_json(quickstart_config()), .lines = {}, .file = "quickstart"};
  for (int i = 1; i < argc; ++i) apply_override(tree, argv[i]);
  std::vector<std::string> notes;
  Config config = load_config(tree, notes);
  config.sft.steps = 0;
  config.run.dir = (std::filesystem::temp_directory_path() / "keel_bench_step").string();
  Console console(stderr);
  const auto trainer = Trainer::start(config, /*replace=*/true, console);
  constexpr int kWarmUp = 3, kSteps = 20;
  std::vector<double> rollout, train;
  for (int i = 0; i < kWarmUp + kSteps; ++i) {
    const Json row = trainer->step();
    if (i < kWarmUp) continue;
    rollout.push_back(row["time/rollout"]);
    train.push_back(row["time/train"]);
  }
  std::printf("%s, %ld completions a step, %ld updates: rollout %.1f ms, train %.1f ms (median of %d steps)\n",
              describe_device(trainer->model().device()).c_str(), static_cast<long>(config.rollouts_per_step()),
              static_cast<long>(config.updates_per_step()), median(rollout) * 1e3, median(train) * 1e3, kSteps);
  remove_tree(config.run.dir);
}
