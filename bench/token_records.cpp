// What token records cost: RL steps of DPPO with the top 20 tokens, in turn without a record, with one of 16 whole
// completions, and with one of all tokens; files are written and synced. On a CPU the small workload of rl_step, on a
// GPU the shape of Qwen2.5-0.5B:
//   build/bench/bin/token_records [ROUNDS]

#include <ATen/ATen.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>

#include "bench/even_tokens.h"
#include "bench/median.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/metrics/token_records.h"
#include "keel/train/trainer.h"

namespace {

using namespace keel;

/// Records as a run's watcher does.
struct Recorder : StepWatcher {
  Recorder(std::filesystem::path to, const Tokenizer& with) : folder(std::move(to)), tokenizer(with) {}
  void ready(const Experience& e) override {
    if (share) records.emplace(folder, step, e.prompts, e.rollouts, e.places, *share, tokenizer);
  }
  void decided(const DecidedTokens& tokens, std::span<const int64_t> minibatch) override {
    if (records) records->add(tokens, minibatch);
  }
  void before_update(std::span<const int64_t>) override {
    if (records) records->end_update();
  }
  std::filesystem::path folder;
  const Tokenizer& tokenizer;
  int64_t step = 0;
  std::optional<RecordedShare> share;  // nothing: no record
  std::optional<TokenRecords> records;
};

struct Times {
  std::vector<double> wall, processor;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const bool on_gpu = at::hasCUDA();
  const at::Device device = open_device(on_gpu ? "cuda" : "cpu");
  Config config;
  config.rollout.samples_per_prompt = on_gpu ? 16 : 8;
  config.rollout.max_new_tokens = on_gpu ? 512 : 40;
  config.objective = {.method = "dppo_topk_tv"};
  config.train.prompts_per_step = on_gpu ? 64 : 8;
  config.train.tokens_per_batch = 32768;
  config.record.certificate_every = 0;
  const LoadedModel policy = random_model(on_gpu ? "0.5B" : "3.2M", device, on_gpu ? at::kBFloat16 : at::kFloat, 0);
  Problems problems = random_problems(policy.model.config().vocab_size, on_gpu ? 512 : 16);
  TrainState state;
  Trainer trainer(config, policy, problems, state);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("keel_bench_tokens_" + std::to_string(getpid()));
  Recorder recorder(folder, policy.tokenizer);
  const std::optional<RecordedShare> shares[] = {std::nullopt, RecordedShare{.rollouts = 16}, RecordedShare{}};
  Times times[3];
  uintmax_t bytes = 0, tokens = 0;
  for (int round = 0; round <= rounds; ++round) {
    for (int kind = 0; kind < 3; ++kind) {
      recorder.share = shares[kind];
      recorder.step++;
      Stopwatch watch(device);
      const std::clock_t began = std::clock();
      const StepOutcome outcome = trainer.step(state, recorder);
      if (recorder.records) recorder.records->commit({{"method", config.objective.method}});
      recorder.records.reset();
      const double seconds = watch.lap();
      if (kind == 2) {
        bytes = std::filesystem::file_size(folder / TokenFile::name(recorder.step));
        tokens = static_cast<uintmax_t>(outcome.numbers.trained_tokens);
      }
      if (round == 0) continue;
      times[kind].wall.push_back(seconds);
      times[kind].processor.push_back(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC);
    }
  }
  remove_tree(folder);
  const double wall = median(times[0].wall), processor = median(times[0].processor);
  std::printf("%s: a step without a record %.4f s, processor time %.4f s (medians of %d in turn)\n",
              describe_device(device).c_str(), wall, processor, rounds);
  for (const int kind : {1, 2}) {
    const double more = median(times[kind].wall) / wall - 1;
    const double more_processor = median(times[kind].processor) / processor - 1;
    std::printf("%s recorded: %+.2f %% wall, %+.2f %% processor time; 1 step in 10: %+.2f %%, %+.2f %%\n",
                kind == 1 ? "16 completions" : "all tokens", 100 * more, 100 * more_processor, 10 * more,
                10 * more_processor);
  }
  std::printf("a file of %s tokens: %s bytes, %.1f a token\n", format_count(static_cast<int64_t>(tokens)).c_str(),
              format_count(static_cast<int64_t>(bytes)).c_str(),
              static_cast<double>(bytes) / static_cast<double>(tokens));
}
