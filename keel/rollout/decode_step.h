#pragma once

#include <c10/core/Event.h>

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "keel/model/network/sampling_model.h"
#include "keel/ops/cuda_graph.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/cache/kv_cache.h"
#include "keel/rollout/hidden_state_buffer.h"
#include "keel/rollout/request.h"

namespace keel {

/// A sequence that enters the decode batch. Its first token is sampled already.
struct BatchEntry {
  const Rollout& rollout;
  int64_t rollout_index;  // within the request
  int64_t max_new_tokens;
  const std::vector<int32_t>& prompt_blocks;
  const std::vector<int32_t>& completion_blocks;
};

/// Decodes a batch of sequences, one token per step, without host synchronisation. On a GPU a step is a CUDA graph,
/// captured once per batch size, and the host reads the tokens of one step while the GPU computes the next one. Owns
/// the KV cache, the recorded hidden states and a copy of the request; borrows the model.
class DecodeStep {
 public:
  /// `max_blocks_per_sequence` counts the blocks of prompt and completion. `rollouts`: number of the request's
  /// rollouts. `request.stop_ids` must hold all tokens that end a completion.
  DecodeStep(const SamplingModel& model, const SamplingRequest& request, KvCache cache, int64_t max_batch_size,
             int64_t max_blocks_per_sequence, int64_t rollouts);

  KvCache& cache() { return cache_; }

  /// Samples the first token of each rollout from the last hidden state [N, H] of its prompt. `rollouts` are indices
  /// within the request; `rollout_ids` key the noise.
  SampledTokens sample_first(const Tensor& states, const std::vector<int64_t>& rollouts, const Tensor& rollout_ids);

  /// Captures a CUDA graph for one more batch size, while the host would otherwise wait for the GPU.
  void capture_next_graph();

  /// Returns whether it pays to set a new batch: `active` sequences still run, and `waiting` others have not started.
  bool should_refill(int64_t active, int64_t waiting) const;

  /// Waits for all steps in flight. Returns their tokens, oldest step first.
  std::vector<SampledTokens> drain() { return fetch(0); }

  /// Replaces the batch; sequence i becomes row i. Steps in flight must be drained first.
  void set_batch(const std::vector<BatchEntry>& sequences);

  /// Launches one step. Returns the tokens of the oldest finished step, or nothing while the pipeline fills.
  std::vector<SampledTokens> step();

  /// Returns the hidden states [count, H] from which a rollout's first `count` tokens were sampled, and stops recording
  /// this rollout.
  Tensor take_states(int64_t rollout, int64_t count);

 private:
  struct Outputs {
    Tensor states;  // [batch, H] hidden states from which the tokens are sampled
    SampledTokens sampled;
  };
  struct CapturedStep {
    CudaGraph graph;
    Outputs outputs;  // overwritten by each replay
  };
  struct InFlight {
    SampledTokens sampled;
    std::optional<c10::Event> done;
  };
  int64_t padded_batch_size(int64_t sequences) const;
  SampledTokens sample_tokens(const Tensor& states, const Tensor& rollout_ids, const Tensor& positions) const;
  Outputs compute(int64_t batch_size) const;
  CapturedStep& graph_for(int64_t batch_size);
  std::vector<SampledTokens> fetch(size_t in_flight);

  const SamplingModel& model_;
  SamplingRequest request_;
  KvCache cache_;
  HiddenStateBuffer states_;
  int64_t max_batch_size_, max_blocks_per_sequence_;
  bool uses_graphs_;
  int32_t padding_block_;                   // attended by padding rows only
  std::vector<int64_t> rollouts_;           // rollout of each row; -1 after its states were taken
  ActiveSequences batch_;                   // max_batch_size rows, padded
  Tensor rollout_ids_;                      // [max_batch_size] int64
  Tensor tables_;                           // [max_batch_size * max_blocks_per_sequence] int32
  Tensor stop_ids_;                         // int64
  std::map<int64_t, CapturedStep> graphs_;  // by batch size
  std::deque<InFlight> in_flight_;          // oldest first
};

}  // namespace keel
