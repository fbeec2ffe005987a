#include "keel/train/start/step_estimate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/core/tensor/stopwatch.h"

namespace keel {
namespace {

/// Calls a second, of calls that together take a twentieth of one.
template <class Call>
double rate_of(at::Device device, const Call& call) {
  call();  // prepares
  Stopwatch watch(device);
  double seconds = 0;
  int64_t calls = 0;
  while (seconds < 0.05) {
    call();
    seconds += watch.lap();
    ++calls;
  }
  return static_cast<double>(calls) / seconds;
}

/// Of a linear layer, by the names that all families have.
struct Sides {
  int64_t in, out;
};

Sides sides_of(const std::string& name, const ModelConfig& shape) {
  const int64_t heads = shape.head_dim * shape.num_attention_heads, kv = shape.head_dim * shape.num_key_value_heads;
  if (name == "q_proj") return {shape.hidden_size, heads};
  if (name == "o_proj") return {heads, shape.hidden_size};
  if (name == "k_proj" || name == "v_proj") return {shape.hidden_size, kv};
  if (name == "down_proj") return {shape.intermediate_size, shape.hidden_size};
  return {shape.hidden_size, shape.intermediate_size};
}

int64_t adapter_numbers(const LoraOptions& lora, const ModelConfig& shape) {
  int64_t sides = 0;
  for (const std::string& name : lora.target_modules) sides += sides_of(name, shape).in + sides_of(name, shape).out;
  return lora.rank * sides * shape.num_hidden_layers;
}

/// What a token leaves behind for the backward pass, in bytes.
int64_t activation_bytes(const Config& config, const ModelConfig& shape, int64_t width) {
  const int64_t heads = shape.head_dim * shape.num_attention_heads, kv = shape.head_dim * shape.num_key_value_heads;
  // Both norms and their inputs, queries, keys and values before and after their rotation, attention, gate, up and
  // what comes of them; of a layer with an adapter also the sum of the two.
  int64_t numbers = 4 * shape.hidden_size + 3 * heads + 4 * kv + 3 * shape.intermediate_size;
  if (config.lora.used())
    for (const std::string& name : config.lora.target_modules) numbers += sides_of(name, shape).out;
  const int64_t layer = numbers * width, layers = shape.num_hidden_layers;
  return config.train.recompute_activations ? layers * shape.hidden_size * width + layer : layers * layer;
}

/// What every update has, whatever its gradients come from.
class Network {
 public:
  Network(const Config& config, const ModelConfig& shape, at::ScalarType type, const DeviceSpeed& speed)
      : config_(config),
        shape_(shape),
        speed_(speed),
        width_(static_cast<int64_t>(c10::elementSize(type))),
        numbers_(shape.parameter_count()),
        trained_(config.lora.used() ? adapter_numbers(config.lora, shape) : numbers_),
        set_((is_narrow(type) ? 4 + width_ : 4) * trained_),  // masters, and what is computed with
        on_cpu_(config.run.device == "cpu") {}

  int64_t all() const { return width_ * numbers_; }  // bytes, of the weights as they are computed with
  int64_t set() const { return set_; }
  bool on_cpu() const { return on_cpu_; }
  double numbers() const { return static_cast<double>(numbers_); }
  /// Small networks wait for whoever calls their operations, of which a layer has a dozen.
  double calls() const { return (on_cpu_ ? 5e-6 : 1e-6) * 12 * static_cast<double>(shape_.num_hidden_layers + 1); }

  /// Weights, gradients and moments, and the activations of the tokens that are computed at once.
  StepEstimate held(int64_t tokens, bool small_moments) const {
    StepEstimate estimate;
    estimate.weights = set_ + (config_.lora.used() ? all() : 0);
    estimate.learning = (4 + (small_moments ? 2 : 8)) * trained_;
    const int64_t together = std::min(config_.train.tokens_per_batch, tokens);
    const int64_t logits = std::min<int64_t>(together * shape_.vocab_size * 4, on_cpu_ ? 64 << 20 : 512 << 20);
    estimate.activations = together * activation_bytes(config_, shape_, width_) + logits;
    return estimate;
  }

  /// Passes over the layers of an update: forward, and backward to the activations and to the weights, which an adapter
  /// has few of, in products that are slow for their size.
  double passes() const { return (config_.lora.used() ? 2.5 : 3) + (config_.train.recompute_activations ? 1 : 0); }

  /// So many passes over so many tokens, in so many batches.
  double seconds(double passes, double tokens, double batches) const {
    constexpr double kReached = 0.7;  // of the speed of one large product
    return 2 * numbers() * passes * tokens / (kReached * speed_.operations) +
           passes * batches * (on_cpu_ ? calls() : 10 * calls());
  }

 private:
  const Config& config_;
  const ModelConfig& shape_;
  DeviceSpeed speed_;
  int64_t width_, numbers_, trained_, set_;
  bool on_cpu_;
};

}  // namespace

DeviceSpeed measure_device_speed(at::Device device, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const int64_t rows = device.is_cuda() ? 8192 : 512, width = device.is_cuda() ? 4096 : 768;
  const Tensor x = at::ones({rows, width}, at::TensorOptions(type).device(device)), turned = x.t();
  Tensor y = at::empty({rows, rows}, x.options());
  const double products = rate_of(device, [&] { at::mm_out(y, x, turned); });
  const Tensor from =
      at::ones({int64_t{1} << (device.is_cuda() ? 28 : 24)}, at::TensorOptions(at::kFloat).device(device));
  Tensor to = at::empty_like(from);
  const double copies = rate_of(device, [&] { to.copy_(from); });
  return {.operations = products * 2.0 * static_cast<double>(rows * rows * width),
          .bytes = copies * 8.0 * static_cast<double>(from.numel())};
}

StepEstimate estimate_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                           const Requirements& needs, int64_t prompt_tokens, int64_t held_out, int64_t keys_and_values,
                           const DeviceSpeed& speed) {
  const Network network(config, shape, type, speed);
  const int64_t completion = resolve_max_new_tokens(config), rollouts = config.rollouts_per_step();
  const int64_t prompts = config.train.prompts_per_step * prompt_tokens, tokens = rollouts * completion + prompts;
  StepEstimate estimate = network.held(tokens, config.optimizer.moments == "8bit");
  const bool lora = config.lora.used();
  // A sampler has the adapter merged, or its weights rounded; on a CPU it lays the weights out anew.
  if (lora || config.rollout.weights != "exact" || network.on_cpu()) estimate.copies += network.all();
  estimate.copies += config.rollout.staleness * (lora ? network.set() : network.all());
  if (needs.reference_logp && !lora) estimate.copies += network.all();
  if (config.critic.has_separate_body()) {
    estimate.copies += network.set();
    estimate.learning *= 2;
  }
  estimate.keys_and_values = keys_and_values;

  // A decode step computes two operations per weight and sequence, and reads all weights, and the keys and values.
  const auto sampling_seconds = [&](int64_t of_prompts, int64_t samples) {
    const int64_t sequences = of_prompts * samples, slots = std::min(config.rollout.max_sequences, sequences);
    if (sequences == 0) return 0.0;
    const double step =
        std::max(2 * network.numbers() * static_cast<double>(slots) / speed.operations,
                 (static_cast<double>(network.all()) + 0.5 * static_cast<double>(keys_and_values)) / speed.bytes);
    const double steps = static_cast<double>(completion) * static_cast<double>(sequences) / static_cast<double>(slots);
    return steps * (step + network.calls()) +
           2 * network.numbers() * static_cast<double>(of_prompts * prompt_tokens) / speed.operations;
  };
  estimate.rollout_seconds = sampling_seconds(config.train.prompts_per_step, config.rollout.samples_per_prompt);
  estimate.evaluation_seconds = sampling_seconds(held_out, config.eval.samples);
  double passes = static_cast<double>(config.train.epochs) * network.passes();  // and others forward
  passes += (needs.reference_logp ? 1 : 0) + (needs.recomputed_logp ? 1 : 0) + (config.critic.has_separate_body() ? 4 : 0);
  const double batches = static_cast<double>(
      std::max<int64_t>(config.updates_per_step(), tokens / std::max<int64_t>(1, config.train.tokens_per_batch)));
  estimate.update_seconds = network.seconds(passes, static_cast<double>(tokens), batches);
  return estimate;
}

StepEstimate estimate_sft_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                                      const RowLengths& rows, const DeviceSpeed& speed) {
  const Network network(config, shape, type, speed);
  const double tokens = rows.mean_rows_per_update * rows.mean_tokens_per_row, most = rows.max_rows_per_update * rows.mean_tokens_per_row;
  const auto batches = [&](double count) {
    return std::ceil(count / static_cast<double>(config.train.tokens_per_batch));
  };
  StepEstimate estimate = network.held(static_cast<int64_t>(most), /*small_moments=*/false);
  estimate.update_seconds = network.seconds(network.passes(), tokens, batches(tokens));
  estimate.evaluation_seconds = network.seconds(1, rows.held_out_tokens, batches(rows.held_out_tokens));
  return estimate;
}

}  // namespace keel
