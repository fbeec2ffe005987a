#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// A prompt and a completion to train on. Sequences with the same prompt_id share their prompt.
struct TrainingSequence {
  std::span<const int32_t> prompt, completion;
  int64_t prompt_id = 0;
  int64_t id = 0;  // of the completion; the ids key the dropout noise, so that it does not depend on packing
  std::span<const uint8_t> loss_mask = {};  // of the completion's tokens; empty: all are targets
};

/// Several sequences without padding; completions of the same prompt share one copy of it.
struct PackedBatch {
  Tensor tokens;                     // [N] int64
  Tensor positions;                  // [N] int64
  std::vector<Segment> segments;     // which tokens attend to which
  std::vector<int64_t> segment_ids;  // [segments] a unique id for each prompt and each completion
  Tensor logits_indices;             // [M] int64: index of the packed token that predicts each target
  Tensor targets;                    // [M] int64: the trained tokens of all completions, by sequence
  std::vector<int64_t> sequences;    // indices into the input of pack(), in the order of the targets
  std::vector<int64_t> lengths;      // [sequences] number of targets of each

  int64_t target_count() const { return targets.size(0); }
};

/// Packs the sequences, in order, into batches of at most `max_tokens` tokens; a longer sequence gets its own batch.
std::vector<PackedBatch> pack(std::span<const TrainingSequence> sequences, int64_t max_tokens, at::Device device);

/// One value per sequence, repeated for each of its targets: [M] float32.
Tensor repeat_per_target(const PackedBatch& batch, std::span<const double> values);

/// One value per target of every sequence, in the order of the batch's targets: [M] float32.
Tensor gather_targets(const PackedBatch& batch, const std::vector<std::span<const float>>& values);

}  // namespace keel
