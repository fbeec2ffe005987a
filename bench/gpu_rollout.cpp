// Sampling on a GPU in bf16 with the shape of Qwen2.5-0.5B. Measures milliseconds per decode step (with
// log-probabilities and entropies), the cost of recording top-K tokens and of truncated sampling, the gain from shared
// prompts, and tokens per second with mixed lengths of prompts and completions.
//
//   build/bench/bin/gpu_rollout [SHAPE [SEQUENCES | mixed | filters [bitwise]]]: SEQUENCES measures only that batch
//   size, for a profiler; mixed only the mixed lengths; filters only recorded tokens and truncated sampling; bitwise
//   with rollout.bitwise
//
// The lower bound of a step is the time to read the weights and the KV cache at copy bandwidth.

#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>

#include "bench/bench_shape.h"
#include "bench/machine_speed.h"
#include "bench/mixed_lengths.h"
#include "keel/core/tensor/device.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/engine.h"

namespace {

using namespace keel;

constexpr int64_t kContext = 512;

/// Prompts of `tokens` tokens, all different or all equal.
std::vector<Prompt> prompts_of(int64_t count, int64_t tokens, bool alike) {
  std::vector<Prompt> prompts(count);
  for (int64_t i = 0; i < count; ++i) {
    prompts[i].id = static_cast<uint64_t>(i);
    for (int64_t t = 0; t < tokens; ++t)
      prompts[i].tokens.push_back(static_cast<int32_t>(3 + ((alike ? 0 : i * 7919) + t * 31) % 50000));
  }
  return prompts;
}

/// Prompts with the lengths of mixed_lengths.h.
std::vector<Prompt> mixed_prompts() {
  std::vector<Prompt> prompts = prompts_of(kMixedPrompts.size(), 1024, false);
  for (size_t i = 0; i < prompts.size(); ++i) prompts[i].tokens.resize(static_cast<size_t>(kMixedPrompts[i]));
  return prompts;
}

double copy_speed(at::Device device) {
  const at::Tensor from = at::ones({1 << 28}, at::TensorOptions(at::kFloat).device(device)), to = at::empty_like(from);
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i)
    seconds.push_back(seconds_of([&] {
      to.copy_(from);
      synchronize(device);
    }));
  return 8.0 * static_cast<double>(from.numel()) / median(seconds);
}

class Measurement {
 public:
  Measurement(const std::string& shape, at::Device device, bool bitwise)
      : config_(bench_shape(shape)), tokenizer_(bench_vocabulary(config_.vocab_size)), device_(device) {
    model_.weights.set_compute_type(at::kBFloat16);
    model_.execution.bitwise = bitwise;
  }

  double seconds(std::span<const Prompt> prompts, SamplingRequest request) const {
    request.stop_at_eos = false;
    return seconds_of([&] { RolloutEngine(SamplingModel(model_), tokenizer_).generate(prompts, request); });
  }

  /// Seconds per step at about this context length, from two runs of different length.
  double step(int64_t sequences, int64_t context, SamplingRequest request = {}) const {
    constexpr int64_t kShort = 16, kLong = 80;
    const std::vector<Prompt> prompts = prompts_of(sequences, context - (kShort + kLong) / 2, false);
    const auto seconds_for = [&](int64_t tokens) {
      request.max_new_tokens = tokens;
      return seconds(prompts, request);
    };
    std::vector<double> steps;
    for (int i = 0; i < 5; ++i) {
      const double short_run = seconds_for(kShort), long_run = seconds_for(kLong);
      steps.push_back((long_run - short_run) / (kLong - kShort));
    }
    return median(steps);
  }

  /// Seconds for the requests of mixed_lengths.h in one batch: all tokens, or only the first of each completion.
  double mixed(bool whole) const {
    const std::vector<Prompt> prompts = mixed_prompts();
    SamplingRequest request{.temperature = 0.6, .max_new_tokens = 1};
    if (whole) request.prompt_max_new_tokens = {kMixedCompletions.begin(), kMixedCompletions.end()};
    seconds(prompts, request);
    std::vector<double> times;
    for (int i = 0; i < 3; ++i) times.push_back(seconds(prompts, request));
    return median(times);
  }

  double floor(int64_t sequences, int64_t context, double bytes_a_second) const {
    const double weights = 2.0 * static_cast<double>(config_.parameter_count());
    const double cache = 4.0 * static_cast<double>(config_.num_hidden_layers * config_.num_key_value_heads *
                                                   config_.head_dim * sequences * context);
    return (weights + cache) / bytes_a_second;
  }

 private:
  ModelConfig config_;
  Tokenizer tokenizer_;
  at::Device device_;
  SamplerWeights model_{ModelWeights::random(config_, 0, {device_})};
};

void print_mixed(const Measurement& measurement) {
  const double first = measurement.mixed(/*whole=*/false), time = measurement.mixed(/*whole=*/true);
  std::printf(
      "256 requests of 100 to 1,024 tokens with completions of 100 to 1,024: %.2f s (up to the first tokens "
      "%.2f s), %.0f output tokens/s\n",
      time, first, 133'966 / time);
}

/// Prints the cost of recording top-K tokens and of truncated sampling, and of the filters alone.
void print_filters(const Measurement& measurement, int64_t vocab, at::Device device) {
  const double plain = measurement.step(256, kContext);
  constexpr int64_t kKeptBytes = int64_t{1} << 36;
  const std::vector<std::pair<const char*, SamplingRequest>> requests = {
      {"with the 20 likeliest tokens recorded", {.top_k = 20}},
      {"from the 20 likeliest tokens, recorded as ids", {.filter = {.top_k = 20}, .max_kept_bytes = kKeptBytes}},
      // The distribution of random weights is flat.
      {"with top_p 0.95, recorded as bitmaps", {.filter = {.top_p = 0.95}, .max_kept_bytes = kKeptBytes}}};
  for (const auto& [name, request] : requests) {
    const double step = measurement.step(256, kContext, request);
    std::printf("256 sequences %s: %.3f ms per step, %+.1f %%\n", name, 1e3 * step, 100 * (step / plain - 1));
  }
  for (const double spread : {1.0, 4.0}) {
    const Tensor logits = at::randn({256, vocab}, at::TensorOptions(at::kFloat).device(device)) * spread;
    for (const auto& [name, filter] :
         {std::pair<const char*, SamplingFilter>{"top_k 20", {.top_k = 20}}, {"top_p 0.95", {.top_p = 0.95}}}) {
      std::vector<double> seconds;
      for (int i = 0; i < 9; ++i)
        seconds.push_back(seconds_of([&, &kept = filter] {
          filter_logits(logits, 1, kept);
          synchronize(device);
        }));
      std::printf("%s alone, 256 rows of logits with standard deviation %.0f: %.3f ms\n", name, spread,
                  1e3 * median(seconds));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!at::hasCUDA()) {
    std::printf("no GPU: nothing was measured\n");
    return 0;
  }
  const at::NoGradGuard no_grad;
  const std::string shape = argc > 1 ? argv[1] : "0.5B";
  const at::Device device = open_device("cuda");
  const Measurement measurement(shape, device, argc > 3 && std::string(argv[3]) == "bitwise");
  const double speed = copy_speed(device);
  std::printf("%s in bf16, a copy moves %.2f TB/s\n", shape.c_str(), speed / 1e12);
  if (argc > 2 && std::string(argv[2]) == "mixed") {
    print_mixed(measurement);
    return 0;
  }
  if (argc > 2 && std::string(argv[2]) == "filters") {
    print_filters(measurement, bench_shape(shape).vocab_size, device);
    return 0;
  }
  const std::vector<int64_t> alone_asked = argc > 2 ? std::vector<int64_t>{std::atol(argv[2])} : std::vector<int64_t>{};
  for (const int64_t sequences : alone_asked.empty() ? std::vector<int64_t>{1, 64, 256, 1024} : alone_asked) {
    const double step = measurement.step(sequences, kContext), floor = measurement.floor(sequences, kContext, speed);
    std::printf("%4ld sequences at context %ld: %6.3f ms per step, %7.0f tokens/s, lower bound %.2f ms (%.0f %%)\n",
                static_cast<long>(sequences), static_cast<long>(kContext), 1e3 * step,
                static_cast<double>(sequences) / step, 1e3 * floor, 100 * floor / step);
    std::fflush(stdout);
  }
  if (!alone_asked.empty()) return 0;
  print_filters(measurement, bench_shape(shape).vocab_size, device);
  const std::vector<Prompt> groups = prompts_of(64, 512, false), alone = prompts_of(1024, 512, true);
  const double shared = measurement.seconds(groups, {.samples_per_prompt = 16, .max_new_tokens = 512}),
               apart = measurement.seconds(alone, {.max_new_tokens = 512});
  std::printf(
      "64 prompts of 512 tokens with 16 completions of 512 each: %.2f s (%.0f tokens/s); prompts not shared: "
      "%.2f s, %.2f times as long\n",
      shared, 64 * 16 * 512 / shared, apart, apart / shared);
  print_mixed(measurement);
}
