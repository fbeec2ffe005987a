#include "keel/train/start/step_estimate.h"

#include <ATen/ATen.h>

#include <algorithm>

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

/// Numbers of an adapter on these layers, by the names that all families have.
int64_t adapter_numbers(const LoraOptions& lora, const ModelConfig& shape) {
  const int64_t heads = shape.head_dim * shape.num_attention_heads, kv = shape.head_dim * shape.num_key_value_heads;
  const int64_t hidden = shape.hidden_size, inner = shape.intermediate_size;
  int64_t sides = 0;  // inputs and outputs of the layers
  for (const std::string& name : lora.target_modules)
    sides += name == "q_proj" || name == "o_proj"   ? hidden + heads
             : name == "k_proj" || name == "v_proj" ? hidden + kv
                                                    : hidden + inner;
  return lora.rank * sides * shape.num_hidden_layers;
}

/// What a token leaves behind for the backward pass, in bytes.
int64_t activation_bytes(const Config& config, const ModelConfig& shape, int64_t width) {
  const int64_t heads = shape.head_dim * shape.num_attention_heads, kv = shape.head_dim * shape.num_key_value_heads;
  // Both norms and their inputs, queries, keys and values before and after their rotation, attention, gate, up and
  // what comes of them.
  const int64_t layer = (4 * shape.hidden_size + 3 * heads + 4 * kv + 3 * shape.intermediate_size) * width;
  const int64_t layers = shape.num_hidden_layers;
  return config.train.recompute_activations ? layers * shape.hidden_size * width + layer : layers * layer;
}

}  // namespace

DeviceSpeed measured_speed(at::Device device, at::ScalarType type) {
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
  const int64_t numbers = shape.parameter_count(), width = static_cast<int64_t>(c10::elementSize(type));
  const bool lora = config.lora.used(), narrow = is_narrow(type);
  const int64_t trained = lora ? adapter_numbers(config.lora, shape) : numbers;
  const int64_t set = (narrow ? 4 + width : 4) * trained;  // masters, and what is computed with
  StepEstimate estimate;
  estimate.weights = set + (lora ? width * numbers : 0);
  estimate.learning = (4 + (config.optimizer.moments == "8bit" ? 2 : 8)) * trained;
  const bool on_cpu = config.run.device == "cpu";
  // A sampler has the adapter merged, or its weights rounded; on a CPU it lays the weights out anew.
  if (lora || config.rollout.weights != "exact" || on_cpu) estimate.copies += width * numbers;
  estimate.copies += config.rollout.staleness * (lora ? set : width * numbers);
  if (needs.reference_logp && !lora) estimate.copies += width * numbers;
  if (config.critic.own_body()) {
    estimate.copies += set;
    estimate.learning *= 2;
  }
  estimate.keys_and_values = keys_and_values;

  const int64_t completion = longest_completion(config), rollouts = config.rollouts_per_step();
  const int64_t prompts = config.train.prompts_per_step * prompt_tokens, tokens = rollouts * completion + prompts;
  const int64_t together = std::min(config.train.tokens_per_batch, tokens);
  const int64_t logits = std::min<int64_t>(together * shape.vocab_size * 4, on_cpu ? 64 << 20 : 512 << 20);
  estimate.activations = together * activation_bytes(config, shape, width) + logits;

  // A sequence in a decode step takes two operations a weight; fewer of them wait for the weights, and all of them for
  // the keys and values that they look at.
  const double weight_bytes = static_cast<double>(width * numbers), weight_count = static_cast<double>(numbers);
  // Small networks wait for whoever calls their operations, of which a layer has a dozen.
  const double calls = (on_cpu ? 5e-6 : 1e-6) * 12 * static_cast<double>(shape.num_hidden_layers + 1);
  const auto sampling_seconds = [&](int64_t of_prompts, int64_t samples) {
    const int64_t sequences = of_prompts * samples, slots = std::min(config.rollout.max_sequences, sequences);
    if (sequences == 0) return 0.0;
    const double step = std::max(2 * weight_count * static_cast<double>(slots) / speed.operations,
                                 (weight_bytes + 0.5 * static_cast<double>(keys_and_values)) / speed.bytes);
    const double steps = static_cast<double>(completion) * static_cast<double>(sequences) / static_cast<double>(slots);
    return steps * (step + calls) +
           2 * weight_count * static_cast<double>(of_prompts * prompt_tokens) / speed.operations;
  };
  estimate.rollout_seconds = sampling_seconds(config.train.prompts_per_step, config.rollout.samples_per_prompt);
  estimate.evaluation_seconds = sampling_seconds(held_out, config.eval.samples);
  // Forward, and backward to the activations and to the weights; other passes forward.
  double passes =
      static_cast<double>(config.train.epochs) * (lora ? 2 : 3 + (config.train.recompute_activations ? 1 : 0));
  passes += (needs.reference_logp ? 1 : 0) + (needs.recomputed_logp ? 1 : 0) + (config.critic.own_body() ? 4 : 0);
  constexpr double kReached = 0.7;  // of the speed of one large product
  const double batches = static_cast<double>(std::max<int64_t>(
      config.train.epochs * config.updates_per_step(), tokens / std::max<int64_t>(1, config.train.tokens_per_batch)));
  estimate.update_seconds = 2 * weight_count * passes * static_cast<double>(tokens) / (kReached * speed.operations) +
                            3 * batches * (on_cpu ? calls : 10 * calls);
  return estimate;
}

}  // namespace keel
