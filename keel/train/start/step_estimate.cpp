#include "keel/train/start/step_estimate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/core/tensor/stopwatch.h"

namespace keel {
namespace {

/// Returns calls per second, measured over a twentieth of a second.
template <class Call>
double measure_rate(at::Device device, const Call& call) {
  call();  // warms up
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

/// Input and output features of a linear layer.
struct Features {
  int64_t in, out;
};

Features linear_features(const std::string& name, const ModelConfig& shape) {
  const int64_t heads = shape.head_dim * shape.num_attention_heads, kv = shape.head_dim * shape.num_key_value_heads;
  if (name == "q_proj") return {shape.hidden_size, heads};
  if (name == "o_proj") return {heads, shape.hidden_size};
  if (name == "k_proj" || name == "v_proj") return {shape.hidden_size, kv};
  if (name == "down_proj") return {shape.intermediate_size, shape.hidden_size};
  return {shape.hidden_size, shape.intermediate_size};
}

int64_t adapter_parameters(const LoraOptions& lora, const ModelConfig& shape) {
  int64_t features = 0;
  for (const std::string& name : lora.target_modules)
    features += linear_features(name, shape).in + linear_features(name, shape).out;
  return lora.rank * features * shape.num_hidden_layers;
}

/// Returns the bytes of activations that a token keeps for the backward pass.
int64_t activation_bytes(const Config& config, const ModelConfig& shape, int64_t element_size) {
  const int64_t heads = shape.head_dim * shape.num_attention_heads, kv = shape.head_dim * shape.num_key_value_heads;
  // Both norms and their inputs; queries, keys and values before and after the rotary embedding; attention; gate, up
  // and their product; and with an adapter the sum of base and adapter outputs.
  int64_t elements = 4 * shape.hidden_size + 3 * heads + 4 * kv + 3 * shape.intermediate_size;
  if (config.lora.used())
    for (const std::string& name : config.lora.target_modules) elements += linear_features(name, shape).out;
  const int64_t layer = elements * element_size, layers = shape.num_hidden_layers;
  return config.train.recompute_activations ? layers * shape.hidden_size * element_size + layer : layers * layer;
}

/// Costs that RL and supervised updates share.
class NetworkCost {
 public:
  NetworkCost(const Config& config, const ModelConfig& shape, at::ScalarType type, const DeviceSpeed& speed)
      : config_(config),
        shape_(shape),
        speed_(speed),
        element_size_(static_cast<int64_t>(c10::elementSize(type))),
        parameters_(shape.parameter_count()),
        trained_(config.lora.used() ? adapter_parameters(config.lora, shape) : parameters_),
        trained_bytes_((is_narrow(type) ? 4 + element_size_ : 4) * trained_),  // master and compute weights
        on_cpu_(config.run.device == "cpu") {}

  int64_t compute_bytes() const { return element_size_ * parameters_; }  // of all weights in the compute dtype
  int64_t trained_bytes() const { return trained_bytes_; }
  bool on_cpu() const { return on_cpu_; }
  double parameters() const { return static_cast<double>(parameters_); }
  /// Seconds to launch the operations of a forward pass, about a dozen per layer; they dominate in small networks.
  double launch_seconds() const {
    return (on_cpu_ ? 5e-6 : 1e-6) * 12 * static_cast<double>(shape_.num_hidden_layers + 1);
  }

  /// Memory of weights, gradients, moments, and activations of one micro-batch.
  StepEstimate memory(int64_t tokens, bool eight_bit_moments) const {
    StepEstimate estimate;
    estimate.weights = trained_bytes_ + (config_.lora.used() ? compute_bytes() : 0);
    estimate.optimizer = (4 + (eight_bit_moments ? 2 : 8)) * trained_;
    const int64_t micro_batch = std::min(config_.train.tokens_per_batch, tokens);
    const int64_t logits = std::min<int64_t>(micro_batch * shape_.vocab_size * 4, on_cpu_ ? 64 << 20 : 512 << 20);
    estimate.activations = micro_batch * activation_bytes(config_, shape_, element_size_) + logits;
    return estimate;
  }

  /// Cost of an update in forward passes: forward, backward to activations and to weights. An adapter has few weights,
  /// but its small products are slow.
  double passes() const { return (config_.lora.used() ? 2.5 : 3) + (config_.train.recompute_activations ? 1 : 0); }

  /// Seconds for `passes` forward passes over `tokens` tokens in `batches` micro-batches.
  double seconds(double passes, double tokens, double batches) const {
    constexpr double kEfficiency = 0.7;  // of the throughput of one large product
    return 2 * parameters() * passes * tokens / (kEfficiency * speed_.flops) +
           passes * batches * (on_cpu_ ? launch_seconds() : 10 * launch_seconds());
  }

 private:
  const Config& config_;
  const ModelConfig& shape_;
  DeviceSpeed speed_;
  int64_t element_size_, parameters_, trained_, trained_bytes_;
  bool on_cpu_;
};

}  // namespace

DeviceSpeed measure_device_speed(at::Device device, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const int64_t rows = device.is_cuda() ? 8192 : 512, width = device.is_cuda() ? 4096 : 768;
  const Tensor x = at::ones({rows, width}, at::TensorOptions(type).device(device)), transposed = x.t();
  Tensor y = at::empty({rows, rows}, x.options());
  const double products = measure_rate(device, [&] { at::mm_out(y, x, transposed); });
  const Tensor from =
      at::ones({int64_t{1} << (device.is_cuda() ? 28 : 24)}, at::TensorOptions(at::kFloat).device(device));
  Tensor to = at::empty_like(from);
  const double copies = measure_rate(device, [&] { to.copy_(from); });
  return {.flops = products * 2.0 * static_cast<double>(rows * rows * width),
          .bytes = copies * 8.0 * static_cast<double>(from.numel())};
}

StepEstimate estimate_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                           const Requirements& needs, int64_t prompt_tokens, int64_t held_out, int64_t kv_cache,
                           const DeviceSpeed& speed) {
  const NetworkCost network(config, shape, type, speed);
  const int64_t completion = resolve_max_new_tokens(config), rollouts = config.rollouts_per_step();
  const int64_t prompts = config.train.prompts_per_step * prompt_tokens, tokens = rollouts * completion + prompts;
  StepEstimate estimate = network.memory(tokens, config.optimizer.moments == "8bit");
  const bool lora = config.lora.used();
  // The sampler has its own weights if they are merged with an adapter, rounded, or packed for a CPU.
  if (lora || config.rollout.weights != "exact" || network.on_cpu()) estimate.copies += network.compute_bytes();
  estimate.copies += config.rollout.staleness * (lora ? network.trained_bytes() : network.compute_bytes());
  if (needs.reference_logp && !lora) estimate.copies += network.compute_bytes();
  if (config.critic.has_separate_body()) {
    estimate.copies += network.trained_bytes();
    estimate.optimizer *= 2;
  }
  estimate.kv_cache = kv_cache;

  // A decode step takes two operations per weight and sequence, and reads all weights and the KV cache.
  const auto sampling_seconds = [&](int64_t prompt_count, int64_t samples) {
    const int64_t sequences = prompt_count * samples, concurrent = std::min(config.rollout.max_sequences, sequences);
    if (sequences == 0) return 0.0;
    const double step =
        std::max(2 * network.parameters() * static_cast<double>(concurrent) / speed.flops,
                 (static_cast<double>(network.compute_bytes()) + 0.5 * static_cast<double>(kv_cache)) / speed.bytes);
    const double steps =
        static_cast<double>(completion) * static_cast<double>(sequences) / static_cast<double>(concurrent);
    return steps * (step + network.launch_seconds()) +
           2 * network.parameters() * static_cast<double>(prompt_count * prompt_tokens) / speed.flops;
  };
  estimate.rollout_seconds = sampling_seconds(config.train.prompts_per_step, config.rollout.samples_per_prompt);
  estimate.evaluation_seconds = sampling_seconds(held_out, config.eval.samples);
  // One forward pass for the reference and for recomputed log-probs; a separate critic has values and an update.
  double passes = static_cast<double>(config.train.epochs) * network.passes();
  passes +=
      (needs.reference_logp ? 1 : 0) + (needs.recomputed_logp ? 1 : 0) + (config.critic.has_separate_body() ? 4 : 0);
  const double batches = static_cast<double>(
      std::max<int64_t>(config.updates_per_step(), tokens / std::max<int64_t>(1, config.train.tokens_per_batch)));
  estimate.update_seconds = network.seconds(passes, static_cast<double>(tokens), batches);
  return estimate;
}

StepEstimate estimate_sft_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                               const SftSizes& rows, const DeviceSpeed& speed) {
  const NetworkCost network(config, shape, type, speed);
  const double tokens = rows.mean_rows_per_update * rows.mean_tokens_per_row,
               max_tokens = rows.max_rows_per_update * rows.mean_tokens_per_row;
  const auto batches = [&](double count) {
    return std::ceil(count / static_cast<double>(config.train.tokens_per_batch));
  };
  StepEstimate estimate = network.memory(static_cast<int64_t>(max_tokens), /*eight_bit_moments=*/false);
  estimate.update_seconds = network.seconds(network.passes(), tokens, batches(tokens));
  estimate.evaluation_seconds = network.seconds(1, rows.held_out_tokens, batches(rows.held_out_tokens));
  return estimate;
}

}  // namespace keel
