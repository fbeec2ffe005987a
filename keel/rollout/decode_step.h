#pragma once

#include <c10/core/Event.h>

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "keel/model/network/causal_lm.h"
#include "keel/ops/recorded_work.h"
#include "keel/ops/running_rows.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/cache/block_store.h"
#include "keel/rollout/request.h"

namespace keel {

/// Where a sequence stands, for the row that decodes it.
struct RowStart {
  int32_t token;     // drawn last
  int64_t position;  // of it, in the sequence
  int64_t place;     // how many tokens of the completion there are
  int64_t limit;     // how many there may be
  uint64_t rollout_id;
  std::vector<int32_t> prompt_blocks, own_blocks;
  int64_t prompt_keys;
};

/// The decode step: a token for each of many sequences, from the newest token to the next one, again and again without
/// a word from the host. On a GPU it is recorded once for each number of rows, and the host looks at a step's tokens
/// while the next one is computed.
class DecodeStep {
 public:
  /// `table_width`: most blocks of a prompt and a completion of it together. `idle_block`: one that no
  /// sequence has.
  DecodeStep(const CausalLm& model, const SamplingRequest& request, const BlockStore& store, int64_t slots,
             int64_t table_width, int32_t idle_block, const std::vector<int32_t>& stop_ids);

  /// A token after each of the states [N, H].
  Drawn draw(const Tensor& states, const Tensor& rollout_ids, const Tensor& places) const;

  /// How many rows are computed where so many sequences run: on a GPU one of few numbers, so that few steps are recorded.
  int64_t rows_for(int64_t sequences) const;

  /// Readies the step for one more number of rows, if it can be recorded: for when the host would wait for the device.
  void prepare();

  /// From now on these sequences are decoded, in this order. Nothing may be under way.
  void arrange(const std::vector<RowStart>& sequences);

  /// Computes one step, or queues it; returns the states [rows, H] that its tokens are drawn from, which hold until the
  /// next call.
  const Tensor& queue();

  /// Steps that were queued and not looked at.
  size_t under_way() const { return under_way_.size(); }
  /// Whether another step should be queued before the oldest is looked at.
  bool looks_late() const { return records_; }
  /// The tokens of the oldest, on the host. Waits for them.
  Drawn look();

 private:
  struct Pass {
    Tensor states;
    Drawn drawn;
  };
  struct RecordedPass {
    RecordedWork work;
    Pass pass;
  };
  struct UnderWay {
    Drawn drawn;
    std::optional<c10::Event> done;
  };
  Pass pass(int64_t rows) const;
  RecordedPass& recorded(int64_t rows);

  const CausalLm& model_;
  const SamplingRequest& request_;
  const BlockStore& store_;
  bool records_;  // its passes, by which they take one call
  int64_t slots_, table_width_, rows_ = 0;
  int32_t idle_block_;
  RunningRows running_;  // all slots
  Tensor rollout_ids_;   // [slots] int64
  Tensor tables_;        // [slots * table_width] int32
  Tensor stop_ids_;      // int64
  Pass newest_;
  std::map<int64_t, RecordedPass> passes_;  // by their rows
  std::deque<UnderWay> under_way_;
};

}  // namespace keel
