// The cost of token records: alternating RL steps of DPPO with the top 20 tokens, without a record, with 16
// completions, and with all tokens, written and synced. Recording is timed separately, since steps vary more than its
// cost. On a CPU it uses the small workload of rl_step, on a GPU Qwen2.5-0.5B:
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

struct Seconds {
  double wall = 0, processor = 0;
};

/// Adds the time of its scope.
class ScopedTimer {
 public:
  explicit ScopedTimer(Seconds& seconds) : seconds_(seconds) {}
  ~ScopedTimer() {
    seconds_.wall += watch_.lap();
    seconds_.processor += static_cast<double>(std::clock() - began_) / CLOCKS_PER_SEC;
  }

 private:
  Seconds& seconds_;
  Stopwatch watch_{at::kCPU};
  std::clock_t began_ = std::clock();
};

/// Records tokens like the watcher of a run.
struct Recorder : StepWatcher {
  Recorder(std::filesystem::path to, const Tokenizer& with) : folder(std::move(to)), tokenizer(with) {}
  void on_experience(const Experience& e) override {
    const ScopedTimer timer(spent);
    if (selection) records.emplace(folder, step, e.prompts, e.rollouts, e.trained_index, *selection, tokenizer);
  }
  void on_tokens(const TokenUpdate& tokens, std::span<const int64_t> minibatch) override {
    const ScopedTimer timer(spent);
    if (records) records->add(tokens, minibatch);
  }
  void on_gradients(std::span<const int64_t>) override {
    if (records) records->end_update();
  }
  void commit() {
    const ScopedTimer timer(spent);
    if (records) records->commit({{"method", "dppo_topk_tv"}});
    records.reset();
  }
  std::filesystem::path folder;
  const Tokenizer& tokenizer;
  Seconds spent;
  int64_t step = 0;
  std::optional<RecordSelection> selection;  // unset: no record
  std::optional<TokenRecords> records;
};

/// Times of the steps of one kind, and of recording in each.
struct Times {
  std::vector<double> wall, processor, record_wall, record_processor;
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
  LoadedModel policy = random_model(on_gpu ? "0.5B" : "3.2M", device, at::kFloat);
  MasterWeights masters = policy.model.set_compute_type(on_gpu ? at::kBFloat16 : at::kFloat);
  PromptSources prompt_sources = random_prompt_sources(policy.model.config().vocab_size, on_gpu ? 512 : 16);
  TrainState state;
  Trainer trainer(config, policy, prompt_sources, {.masters = std::move(masters)});
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("keel_bench_tokens_" + std::to_string(getpid()));
  Recorder recorder(folder, policy.tokenizer);
  const std::optional<RecordSelection> shares[] = {std::nullopt, RecordSelection{.rollouts = 16}, RecordSelection{}};
  Times times[3];
  uintmax_t bytes = 0, tokens = 0;
  for (int round = 0; round <= rounds; ++round) {
    for (int kind = 0; kind < 3; ++kind) {
      recorder.selection = shares[kind];
      recorder.step++;
      recorder.spent = {};
      Seconds step;
      std::optional<StepResult> outcome;
      {
        const ScopedTimer measured(step);
        outcome = trainer.step(state, recorder);
        recorder.commit();
      }
      if (kind == 2) {
        bytes = std::filesystem::file_size(folder / TokenFile::name(recorder.step));
        tokens = static_cast<uintmax_t>(outcome->metrics.trained_tokens);
      }
      if (round == 0) continue;
      times[kind].wall.push_back(step.wall);
      times[kind].processor.push_back(step.processor);
      times[kind].record_wall.push_back(recorder.spent.wall);
      times[kind].record_processor.push_back(recorder.spent.processor);
    }
  }
  remove_tree(folder);
  const double wall = median(times[0].wall), processor = median(times[0].processor);
  std::printf("%s: step without a record %.4f s, processor time %.4f s (medians of %d)\n",
              describe_device(device).c_str(), wall, processor, rounds);
  for (const int kind : {1, 2}) {
    const double taken = median(times[kind].record_wall), busy = median(times[kind].record_processor);
    std::printf(
        "%s recorded: the record takes %.1f ms, processor time %.1f ms: %.2f and %.2f %% of a step, %.2f and %.2f %% "
        "if it is every tenth; the whole step %+.2f and %+.2f %%\n",
        kind == 1 ? "16 completions" : "all tokens", 1e3 * taken, 1e3 * busy, 100 * taken / wall,
        100 * busy / processor, 10 * taken / wall, 10 * busy / processor, 100 * (median(times[kind].wall) / wall - 1),
        100 * (median(times[kind].processor) / processor - 1));
  }
  std::printf("a file of %s tokens: %s bytes, %.1f per token\n", format_count(static_cast<int64_t>(tokens)).c_str(),
              format_count(static_cast<int64_t>(bytes)).c_str(),
              static_cast<double>(bytes) / static_cast<double>(tokens));
}
