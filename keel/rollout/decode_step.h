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

/// A sequence that is decoded from here on.
struct RowStart {
  const Rollout& rollout;  // has its first token
  int64_t index;           // of the rollout
  int64_t limit;           // max tokens of its completion
  const std::vector<int32_t>&prompt_blocks, &own_blocks;
};

/// The decode step: draws the next token of many sequences, again and again without host synchronisation. On a GPU a
/// step is a CUDA graph, captured once per batch size, and the host reads the tokens of one step while the next one is
/// computed. Owns the KV cache, the hidden states on record and a copy of the request; borrows the model.
class DecodeStep {
 public:
  /// `slots`: max sequences that are decoded together. `table_width`: max blocks of a prompt and a completion of it
  /// together. `rollouts`: all of the request. `request.stop_ids`: all tokens that end a completion.
  DecodeStep(const SamplingModel& model, const SamplingRequest& request, KvCache store, int64_t slots,
             int64_t table_width, int64_t rollouts);

  KvCache& store() { return store_; }

  /// Draws the first tokens of the rollouts, whose ids are `rollout_ids`, from the last states [N, H] of their prompts.
  SampledTokens draw_first(const Tensor& states, const std::vector<int64_t>& rollouts, const Tensor& rollout_ids);

  /// Captures a CUDA graph for one more batch size, while the host would otherwise wait for the GPU.
  void capture_next_graph();

  /// Whether arranging the rows again pays off: `live` arranged sequences still run, `waiting` others have not started.
  bool should_arrange(int64_t live, int64_t waiting) const;

  /// Waits for all steps in flight. Returns their tokens, the oldest first.
  std::vector<SampledTokens> drain() { return fetch(0); }

  /// Decodes these sequences from now on, a row each. Steps in flight must be drained first.
  void arrange(const std::vector<RowStart>& sequences);

  /// Launches one step. Returns the tokens of the oldest one that is complete, or nothing while the pipeline fills.
  std::vector<SampledTokens> step();

  /// Hands out the states [count, H] that a rollout's first tokens were drawn from, and records no more of it.
  Tensor take_states(int64_t rollout, int64_t count);

 private:
  struct Outputs {
    Tensor states;  // [rows, H] that the tokens are drawn from
    SampledTokens drawn;
  };
  struct Graph {
    CudaGraph work;
    Outputs outputs;  // overwritten by each launch
  };
  struct InFlight {
    SampledTokens drawn;
    std::optional<c10::Event> done;
  };
  int64_t rows_for(int64_t sequences) const;
  SampledTokens draw(const Tensor& states, const Tensor& rollout_ids, const Tensor& places) const;
  Outputs compute(int64_t rows) const;
  Graph& graph_for(int64_t rows);
  std::vector<SampledTokens> fetch(size_t in_flight);

  const SamplingModel& model_;
  SamplingRequest request_;
  KvCache store_;
  HiddenStateBuffer states_;
  int64_t slots_, table_width_;
  bool uses_graphs_;
  int32_t idle_block_;               // no sequence has it
  std::vector<int64_t> rollouts_;    // of the arranged rows; -1 once their states were handed out
  ActiveSequences running_;          // all slots
  Tensor rollout_ids_;               // [slots] int64
  Tensor tables_;                    // [slots * table_width] int32
  Tensor stop_ids_;                  // int64
  std::map<int64_t, Graph> graphs_;  // by their rows
  std::deque<InFlight> in_flight_;   // the oldest first
};

}  // namespace keel
