#pragma once

#include <cstdint>

#include "keel/core/requirements.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_config.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"

namespace keel {

/// Throughput of matrix products and of memory copies.
struct DeviceSpeed {
  double flops, bytes;  // per second
};

/// Measures the throughput of a device in a tenth of a second.
DeviceSpeed measure_device_speed(at::Device device, at::ScalarType type);

/// Memory and time of a step, estimated from sizes before anything is loaded.
struct StepEstimate {
  int64_t weights = 0;    // bytes: of the trained weights and of the base of an adapter
  int64_t optimizer = 0;  // gradients and moments
  int64_t copies = 0;     // weights of reference, critic and sampler
  int64_t kv_cache = 0;
  int64_t activations = 0;     // of one micro-batch, with the logits
  double rollout_seconds = 0;  // with all completions at their maximum length
  double update_seconds = 0;
  double evaluation_seconds = 0;  // for one evaluation

  int64_t bytes() const { return weights + optimizer + copies + kv_cache + activations; }
};

/// `prompt_tokens` is the length of each prompt, `held_out` the prompts of an evaluation, `kv_cache` the sampler's
/// bytes.
StepEstimate estimate_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                           const Requirements& needs, int64_t prompt_tokens, int64_t held_out, int64_t kv_cache,
                           const DeviceSpeed& speed);

/// Estimates a supervised update on rows of files, and the evaluation of the held-out loss.
StepEstimate estimate_sft_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                               const SftSizes& rows, const DeviceSpeed& speed);

}  // namespace keel
