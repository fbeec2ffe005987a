#pragma once

#include <cstdint>
#include <optional>

#include "keel/core/requirements.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_config.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// Throughput of matrix products and of memory copies.
struct DeviceSpeed {
  double flops, bytes;  // per second
};

/// Measures the throughput of a device in a tenth of a second.
DeviceSpeed measure_device_speed(at::Device device, at::ScalarType type);

/// What estimates depend on, known before any weight is loaded.
struct RunSizes {
  const Config& config;
  const ModelConfig& shape;
  at::ScalarType type;  // of the computation
  at::Device device;
  PromptLengths prompts = {};
  int64_t held_out = 0;                     // prompts of an evaluation
  std::optional<SftSizes> supervised = {};  // of the supervised phase, if it is on files
  int64_t longest_held_out = 0;             // prompt of an evaluation, in tokens
};

/// Returns the sizes of a run whose rows are open.
RunSizes run_sizes(const Config& config, const ModelConfig& shape, at::ScalarType type, at::Device device,
                   PromptSources& prompt_sources, const Demonstrations& demonstrations);

/// Numbers of sequences decoded together in training and in evaluations, the maximum size of their KV cache, and the
/// maximum host memory for the sets of tokens that truncated sampling keeps in a step.
struct RolloutPlan {
  int64_t training = 0, evaluation = 0, kv_cache_bytes = 0, kept_bytes = 0;
};

RolloutPlan plan_rollout(const RunSizes& sizes);

/// Estimated peak memory, in bytes.
struct MemoryEstimate {
  int64_t program = 0;    // libraries, and the CUDA context on a GPU
  int64_t weights = 0;    // of the trained weights and of the base of an adapter
  int64_t optimizer = 0;  // gradients and moments
  int64_t copies = 0;     // weights of reference, critic and earlier policies
  int64_t states = 0;     // the sampler's hidden states of a step's completions, and its LM head
  int64_t sampler = 0;    // its own weights, and the logits of a decode step
  int64_t kv_cache = 0;
  int64_t activations = 0;  // of one micro-batch, with the logits
  bool samples_while_training = false;

  int64_t persistent_bytes() const { return program + weights + optimizer + copies + states; }
  /// Sampler and KV cache are freed before an update, unless the next batch is sampled during it.
  int64_t bytes() const;
};

/// Memory of the RL phase.
MemoryEstimate estimate_memory(const RunSizes& sizes, const Requirements& needs);

/// Memory of supervised updates on rows of files.
MemoryEstimate estimate_sft_memory(const RunSizes& sizes);

/// The larger estimate of the run's phases.
MemoryEstimate estimate_run_memory(const RunSizes& sizes);

/// Estimated seconds of an RL step, or of a supervised update.
struct TimeEstimate {
  double rollout = 0;  // with all completions at their maximum length
  double update = 0;
  double evaluation = 0;  // for one evaluation
};

TimeEstimate estimate_time(const RunSizes& sizes, const Requirements& needs, const DeviceSpeed& speed);
TimeEstimate estimate_sft_time(const RunSizes& sizes, const DeviceSpeed& speed);

/// The number of trained parameters: of the adapter, or of all weights.
int64_t trained_parameters(const Config& config, const ModelConfig& shape);

}  // namespace keel
