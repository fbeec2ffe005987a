#pragma once

#include <cstdint>

#include "keel/core/requirements.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_config.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"

namespace keel {

/// How fast a device multiplies matrices and copies memory.
struct DeviceSpeed {
  double operations, bytes;  // a second
};

/// Measured in a tenth of a second.
DeviceSpeed measure_device_speed(at::Device device, at::ScalarType type);

/// What a step takes, as far as sizes tell: for people who plan, before anything is loaded.
struct StepEstimate {
  int64_t weights = 0;          // bytes: of what is trained, and of what it is added to
  int64_t learning = 0;         // gradients and moments
  int64_t copies = 0;           // other sets of weights: a reference, a critic, what a sampler has for itself
  int64_t keys_and_values = 0;  // of the sampler
  int64_t activations = 0;      // of one batch of tokens, the head's logits among them
  double rollout_seconds = 0;   // where every completion has its full length
  double update_seconds = 0;
  double evaluation_seconds = 0;  // of one evaluation

  int64_t bytes() const { return weights + learning + copies + keys_and_values + activations; }
};

/// `prompt_tokens` each; `keys_and_values` is what the sampler plans for, `held_out` the prompts of an evaluation.
StepEstimate estimate_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                           const Requirements& needs, int64_t prompt_tokens, int64_t held_out, int64_t keys_and_values,
                           const DeviceSpeed& speed);

/// Of a supervised update on rows of files, and of measuring the loss on those that are kept for it.
StepEstimate estimate_sft_step(const Config& config, const ModelConfig& shape, at::ScalarType type,
                               const RowLengths& rows, const DeviceSpeed& speed);

}  // namespace keel
