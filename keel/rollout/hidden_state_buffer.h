#pragma once

#include <cstdint>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The hidden states of tokens, appended step by step and handed out by the rollout they belong to. Memory goes with
/// the tokens that are still being decoded, not with how long they may become. It owns the states.
class HiddenStateBuffer {
 public:
  explicit HiddenStateBuffer(int64_t rollouts) : rows_(rollouts) {}

  /// One state [S, H] for each of these rollouts; -1: nobody's.
  void add(const Tensor& states, const std::vector<int64_t>& rollouts);
  /// The first states [count, H] of a rollout, which are forgotten here with all others of it.
  Tensor take(int64_t rollout, int64_t count);

 private:
  void make_room(const Tensor& like, int64_t count);

  std::vector<std::vector<int64_t>> rows_;  // of each rollout, in states_
  Tensor states_;                           // [room, H]
  int64_t used_ = 0, wanted_ = 0;           // rows with a state; those of them that will still be asked for
};

}  // namespace keel
