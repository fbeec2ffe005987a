#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// A prompt and its completion, to be trained on. Sequences with the same prompt_id share their prompt.
struct TrainingSequence {
  std::span<const int32_t> prompt, completion;
  int64_t prompt_id = 0;
  int64_t id = 0;  // of the completion; with it and the prompt's a token has the same noise in any batch
  std::span<const uint8_t> loss_mask = {};  // which of the completion's tokens are targets; empty: all
};

/// Several sequences laid end to end: no padding, and a prompt once for all completions of it.
struct PackedBatch {
  Tensor tokens;                   // [N] int64
  Tensor positions;                // [N] int64
  std::vector<Segment> segments;   // who looks at whom
  std::vector<int64_t> segment_ids;     // [segments] what each is of: a number for every prompt and every completion
  Tensor logits_indices;                     // [M] int64: the packed token that predicts each target
  Tensor targets;                  // [M] int64: the completions' trained tokens, one sequence after the other
  std::vector<int64_t> sequences;  // which of the packed sequences, in the order of the targets
  std::vector<int64_t> lengths;    // [sequences] targets of each

  int64_t target_count() const { return targets.size(0); }
};

/// Packs the sequences, in order, into batches of at most `max_tokens` tokens (a longer sequence gets its own batch).
std::vector<PackedBatch> pack(std::span<const TrainingSequence> sequences, int64_t max_tokens, at::Device device);

/// One value per sequence, repeated for each of its targets: [M] float32.
Tensor repeat_per_target(const PackedBatch& batch, std::span<const double> values);

/// One value per target of every sequence, in the order of the batch's targets: [M] float32.
Tensor gather_targets(const PackedBatch& batch, const std::vector<std::span<const float>>& values);

}  // namespace keel
