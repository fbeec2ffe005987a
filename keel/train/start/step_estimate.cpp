#include "keel/train/start/step_estimate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/objective/methods.h"
#include "keel/rollout/cache/kv_cache.h"

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

/// Costs of the trained network.
class NetworkCost {
 public:
  explicit NetworkCost(const RunSizes& sizes)
      : sizes_(sizes),
        config_(sizes.config),
        shape_(sizes.shape),
        element_size_(static_cast<int64_t>(c10::elementSize(sizes.type))),
        trained_(trained_parameters(config_, shape_)) {}

  /// Bytes of all weights in the compute dtype.
  int64_t compute_bytes() const { return element_size_ * shape_.parameter_count(); }
  /// Bytes of the trained weights: float32 master weights, and a copy in a narrow compute dtype.
  int64_t trained_bytes() const { return (is_narrow(sizes_.type) ? 4 + element_size_ : 4) * trained_; }
  bool on_cpu() const { return sizes_.device.is_cpu(); }
  double parameters() const { return static_cast<double>(shape_.parameter_count()); }
  /// Bytes of float32 logits.
  int64_t logits(int64_t tokens) const { return tokens * shape_.vocab_size * 4; }

  /// Seconds to launch the operations of a forward pass, about a dozen per layer; they dominate in small networks.
  double launch_seconds() const {
    return (on_cpu() ? 5e-6 : 2e-6) * 12 * static_cast<double>(shape_.num_hidden_layers + 1);
  }

  /// Bytes of the weights of a separate critic, which trains all weights also next to an adapter.
  int64_t critic_bytes() const { return (is_narrow(sizes_.type) ? 4 + element_size_ : 4) * shape_.parameter_count(); }

  /// Memory of weights, gradients and moments, and of the activations of the largest micro-batch of an update of
  /// `tokens` tokens in sequences of up to `longest` tokens.
  MemoryEstimate memory(int64_t tokens, int64_t longest, bool eight_bit_moments) const {
    constexpr int64_t kProgramBytes = int64_t{160} << 20, kMaxLogits = int64_t{768} << 20, kMaxCpuLogits = 64 << 20;
    MemoryEstimate estimate{.program = on_cpu() ? kProgramBytes : kCudaContextBytes};
    estimate.weights = trained_bytes() + (config_.lora.used() ? compute_bytes() : 0);
    estimate.optimizer = (4 + (eight_bit_moments ? 2 : 8)) * trained_;
    const int64_t micro_batch = std::min(std::max(config_.train.tokens_per_batch, longest), std::max(tokens, longest));
    estimate.activations =
        micro_batch * activation_bytes() + std::min(logits(micro_batch), on_cpu() ? kMaxCpuLogits : kMaxLogits);
    return estimate;
  }

  /// Cost of an update in forward passes: forward, backward to activations and to weights. An adapter has few weights,
  /// but its small products are slow.
  double passes() const { return (config_.lora.used() ? 2.5 : 3) + (config_.train.recompute_activations ? 1 : 0); }

  /// Seconds of `passes` forward passes over `tokens` tokens in sequences of `length` tokens and in `batches`
  /// micro-batches: products of weights, attention, reads and writes of activations, launches.
  double pass_seconds(double passes, double tokens, double length, double batches, const DeviceSpeed& speed) const {
    constexpr double kEfficiency = 0.7;  // of the throughput of one large product
    const double heads = static_cast<double>(shape_.head_dim * shape_.num_attention_heads),
                 layers = static_cast<double>(shape_.num_hidden_layers);
    const double operations = 2 * parameters() + 4 * heads * layers * length / 2;  // a token attends to half of them
    const double traffic = 2.0 * static_cast<double>(layer_bytes()) * layers;
    return passes * (tokens * (operations / (kEfficiency * speed.flops) + traffic / speed.bytes) +
                     batches * (on_cpu() ? 1 : 5) * launch_seconds());
  }

  /// Seconds in which the optimizer reads and writes weights, gradients and moments.
  double optimizer_seconds(double updates, const DeviceSpeed& speed) const {
    return updates * 36 * static_cast<double>(trained_) / speed.bytes;
  }

 private:
  /// Bytes of activations that a token keeps in a layer: both norms and their inputs; queries, keys and values before
  /// and after the rotary embedding; attention; gate, up and their product.
  int64_t layer_bytes() const {
    const int64_t heads = shape_.head_dim * shape_.num_attention_heads,
                  kv = shape_.head_dim * shape_.num_key_value_heads;
    int64_t numbers = 4 * shape_.hidden_size + 3 * heads + 4 * kv + 3 * shape_.intermediate_size;
    if (config_.lora.used() && config_.lora.dropout > 0)  // each adapter keeps its own input
      for (const std::string& name : config_.lora.target_modules) numbers += linear_features(name, shape_).in;
    return numbers * element_size_;
  }

  /// Bytes of activations that a token keeps for the backward pass.
  int64_t activation_bytes() const {
    const int64_t layers = shape_.num_hidden_layers;
    return config_.train.recompute_activations ? layers * shape_.hidden_size * element_size_ + layer_bytes()
                                               : layers * layer_bytes();
  }

  const RunSizes& sizes_;
  const Config& config_;
  const ModelConfig& shape_;
  int64_t element_size_, trained_;
};

/// The size of a set, and its words at the most expensive size.
int64_t max_kept_bytes_per_token(const SamplingFilter& filter, int64_t vocab) {
  if (filter.keeps_all()) return 0;
  const int64_t largest = filter.top_k > 0 ? std::min(filter.top_k, vocab) : vocab - 1,
                listed = std::min(largest, kMaxKeptIds);
  return 4 + 4 * std::max(kept_words(listed, vocab), kept_words(largest, vocab));
}

/// Tokens of an update: its completions, and their prompts.
int64_t tokens_per_update(const RunSizes& sizes) {
  const Config& config = sizes.config;
  const int64_t sequences = config.rollouts_per_step() / std::max<int64_t>(config.updates_per_step(), 1),
                prompts = std::min(sequences, config.train.prompts_per_step);
  return sequences * resolve_max_new_tokens(config) + std::llround(static_cast<double>(prompts) * sizes.prompts.mean);
}

int64_t tokens_per_step(const RunSizes& sizes) {
  return sizes.config.rollouts_per_step() * resolve_max_new_tokens(sizes.config) +
         std::llround(static_cast<double>(sizes.config.train.prompts_per_step) * sizes.prompts.mean);
}

/// Seconds to sample completions of maximum length for `prompts` prompts. A decode step takes two operations per weight
/// and sequence, or the time to read all weights; and it reads the KV cache, which is half full on average.
double sampling_seconds(const RunSizes& sizes, const NetworkCost& network, int64_t prompts, int64_t samples,
                        int64_t kv_cache, const DeviceSpeed& speed) {
  const int64_t sequences = prompts * samples;
  if (sequences == 0) return 0;
  const auto concurrent = static_cast<double>(std::min(sizes.config.rollout.max_sequences, sequences));
  // On an H200 an adapter that is applied apart made a step up to 1.18 times as long.
  const double adapter_factor = sizes.config.lora.used() && is_narrow(sizes.type) ? 1.1 : 1;
  const double step = adapter_factor * std::max(2 * network.parameters() * concurrent / speed.flops,
                                                static_cast<double>(network.compute_bytes()) / speed.bytes) +
                      0.5 * static_cast<double>(kv_cache) / speed.bytes + network.launch_seconds();
  const double steps =
      static_cast<double>(resolve_max_new_tokens(sizes.config)) * static_cast<double>(sequences) / concurrent;
  return steps * step +
         network.pass_seconds(1, static_cast<double>(prompts) * sizes.prompts.mean, sizes.prompts.mean, 1, speed);
}

}  // namespace

int64_t MemoryEstimate::bytes() const {
  const int64_t sampling = sampler + kv_cache;
  return persistent_bytes() + (samples_while_training ? sampling + activations : std::max(sampling, activations));
}

int64_t trained_parameters(const Config& config, const ModelConfig& shape) {
  return config.lora.used() ? adapter_parameters(config.lora, shape) : shape.parameter_count();
}

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

RunSizes run_sizes(const Config& config, const ModelConfig& shape, at::ScalarType type, at::Device device,
                   PromptSources& prompt_sources, const Demonstrations& demonstrations) {
  RunSizes sizes{config, shape, type, device};
  if (config.has_rl()) {
    sizes.prompts = prompt_sources.lengths();
    const HeldOutPrompts held_out = prompt_sources.held_out(config.prompts_per_evaluation());
    sizes.held_out = static_cast<int64_t>(held_out.prompts.size());
    sizes.longest_held_out = held_out.longest_prompt();
  }
  if (demonstrations.from_files()) sizes.supervised = demonstrations.sizes();
  return sizes;
}

RolloutPlan plan_rollout(const RunSizes& sizes) {
  const Config& config = sizes.config;
  const int64_t max_sequences = config.rollout.max_sequences;
  const auto kv_cache_bytes = [&](int64_t prompts, int64_t sequences, int64_t longest_prompt) {
    const std::vector<int64_t> prompt_lengths(std::min(prompts, sequences), longest_prompt),
        completion_lengths(sequences, resolve_max_new_tokens(config));
    return KvCache::bytes(sizes.shape, KvCache::max_blocks(prompt_lengths, completion_lengths, sequences), sizes.type,
                          sizes.device);
  };
  const int64_t eval_prompts = std::min(sizes.held_out, std::max<int64_t>(1, max_sequences / config.eval.samples));
  const int64_t training = std::min(max_sequences, config.rollouts_per_step()),
                evaluation = std::min(max_sequences, eval_prompts * config.eval.samples);
  return {training, evaluation,
          std::max(kv_cache_bytes(config.train.prompts_per_step, training, sizes.prompts.longest),
                   kv_cache_bytes(eval_prompts, evaluation, sizes.longest_held_out)),
          config.rollouts_per_step() * resolve_max_new_tokens(config) *
              max_kept_bytes_per_token(config.rollout.filter, sizes.shape.vocab_size)};
}

MemoryEstimate estimate_memory(const RunSizes& sizes, const Requirements& needs) {
  const NetworkCost network(sizes);
  const Config& config = sizes.config;
  const bool lora = config.lora.used();
  const bool eight_bit_moments = config.optimizer.moments == "8bit", narrow = is_narrow(sizes.type);
  MemoryEstimate estimate = network.memory(tokens_per_update(sizes),
                                           sizes.prompts.longest + resolve_max_new_tokens(config), eight_bit_moments);
  const bool rounds = config.rollout.weights != "exact",
             merges = rounds || (lora && !narrow && !config.rollout.bitwise);
  estimate.copies += config.rollout.staleness * (lora || rounds ? network.trained_bytes() : network.compute_bytes());
  if (needs.reference_logp && !lora) estimate.copies += network.compute_bytes();
  if (config.critic.has_separate_body()) {
    estimate.copies += network.critic_bytes();
    estimate.optimizer += (4 + (eight_bit_moments ? 2 : 8)) * sizes.shape.parameter_count();
  }
  if (needs.hidden_states) {
    const int64_t tokens = config.rollouts_per_step() * resolve_max_new_tokens(config);
    estimate.states = static_cast<int64_t>(c10::elementSize(sizes.type)) * sizes.shape.hidden_size *
                      ((config.rollout.staleness + 1) * tokens + sizes.shape.vocab_size);
  }
  const RolloutPlan plan = plan_rollout(sizes);
  estimate.sampler = network.logits(std::max(plan.training, plan.evaluation));
  // The sampler has its own weights if they are merged with a float32 adapter or rounded, and packs float32 on a CPU.
  if (merges) estimate.sampler += network.compute_bytes();
  if (network.on_cpu() && !narrow) estimate.sampler += network.compute_bytes();
  estimate.kv_cache = plan.kv_cache_bytes;
  estimate.samples_while_training = config.rollout.staleness > 0;
  return estimate;
}

MemoryEstimate estimate_sft_memory(const RunSizes& sizes) {
  const SftSizes rows = sizes.supervised.value_or(SftSizes());
  return NetworkCost(sizes).memory(std::llround(rows.max_rows_per_update * rows.mean_tokens_per_row), rows.longest_row,
                                   /*eight_bit_moments=*/false);
}

MemoryEstimate estimate_run_memory(const RunSizes& sizes) {
  const Config& config = sizes.config;
  std::optional<MemoryEstimate> largest;
  const auto include = [&](const MemoryEstimate& phase) {
    if (!largest || phase.bytes() > largest->bytes()) largest = phase;
  };
  if (sizes.supervised || !config.has_rl()) include(estimate_sft_memory(sizes));
  if (config.has_rl())
    include(estimate_memory(
        sizes, make_objective(config.objective, static_cast<double>(resolve_max_new_tokens(config)), config.reference)
                   .requirements()));
  return *largest;
}

TimeEstimate estimate_time(const RunSizes& sizes, const Requirements& needs, const DeviceSpeed& speed) {
  const NetworkCost network(sizes);
  const Config& config = sizes.config;
  const int64_t kv_cache = plan_rollout(sizes).kv_cache_bytes;
  TimeEstimate estimate;
  estimate.rollout = sampling_seconds(sizes, network, config.train.prompts_per_step, config.rollout.samples_per_prompt,
                                      kv_cache, speed);
  estimate.evaluation = sampling_seconds(sizes, network, sizes.held_out, config.eval.samples, kv_cache, speed);
  // One forward pass for the reference and for recomputed log-probs; a separate critic has values and an update.
  const double passes = static_cast<double>(config.train.epochs) * network.passes() + (needs.reference_logp ? 1 : 0) +
                        (needs.recomputed_logp ? 1 : 0) + (config.critic.has_separate_body() ? 4 : 0);
  const auto tokens = static_cast<double>(tokens_per_step(sizes)),
             updates = static_cast<double>(config.updates_per_step());
  const double batches = std::max(updates, tokens / static_cast<double>(config.train.tokens_per_batch));
  const double length = sizes.prompts.mean + static_cast<double>(resolve_max_new_tokens(config));
  estimate.update = network.pass_seconds(passes, tokens, length, batches, speed) +
                    network.optimizer_seconds(config.critic.has_separate_body() ? 2 * updates : updates, speed);
  return estimate;
}

TimeEstimate estimate_sft_time(const RunSizes& sizes, const DeviceSpeed& speed) {
  const NetworkCost network(sizes);
  const SftSizes& rows = *sizes.supervised;
  const auto pass_seconds = [&](double passes, double tokens) {
    const double batches = std::ceil(tokens / static_cast<double>(sizes.config.train.tokens_per_batch));
    return network.pass_seconds(passes, tokens, rows.mean_tokens_per_row, batches, speed);
  };
  return {.update = pass_seconds(network.passes(), rows.mean_rows_per_update * rows.mean_tokens_per_row) +
                    network.optimizer_seconds(1, speed),
          .evaluation = pass_seconds(1, rows.held_out_tokens)};
}

}  // namespace keel
