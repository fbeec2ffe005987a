#pragma once

#include <cstdint>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Collects the hidden states of all rollouts, step by step, and returns them by rollout. Its memory grows with the
/// tokens of unfinished rollouts, not with their maximum length. It owns the states.
class HiddenStateBuffer {
 public:
  explicit HiddenStateBuffer(int64_t rollouts) : rows_(rollouts) {}

  /// Appends states[i] [H] to rollout rollouts[i]. States of rollout -1 are dropped.
  void add(const Tensor& states, const std::vector<int64_t>& rollouts);
  /// Returns the first `count` states [count, H] of a rollout and drops all of its states.
  Tensor take(int64_t rollout, int64_t count);

 private:
  void reserve(const Tensor& like, int64_t count);

  std::vector<std::vector<int64_t>> rows_;  // in states_, by rollout
  Tensor states_;                           // [capacity, H]
  int64_t used_ = 0, live_ = 0;             // rows written; rows among them that are not yet taken
};

}  // namespace keel
