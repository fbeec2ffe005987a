#include "keel/rollout/hidden_state_buffer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace keel {

/// Reserves `count` more rows. A full buffer is replaced by one of twice the size that live and new rows need.
void HiddenStateBuffer::reserve(const Tensor& like, int64_t count) {
  const int64_t capacity = states_.defined() ? states_.size(0) : 0;
  if (used_ + count <= capacity) return;
  std::vector<int64_t> kept;
  for (std::vector<int64_t>& rows : rows_)
    for (int64_t& row : rows) {
      kept.push_back(row);
      row = static_cast<int64_t>(kept.size()) - 1;
    }
  Tensor larger = at::empty({2 * (live_ + count), like.size(1)}, like.options());
  if (!kept.empty())
    larger.narrow(0, 0, live_).copy_(states_.index_select(0, at::tensor(kept, at::kLong).to(like.device())));
  states_ = std::move(larger);
  used_ = live_;
}

void HiddenStateBuffer::add(const Tensor& states, const std::vector<int64_t>& rollouts) {
  const int64_t count = states.size(0);
  reserve(states, count);
  states_.narrow(0, used_, count).copy_(states);
  for (int64_t i = 0; i < count; ++i) {
    if (rollouts[i] < 0) continue;
    rows_[rollouts[i]].push_back(used_ + i);
    live_++;
  }
  used_ += count;
}

Tensor HiddenStateBuffer::take(int64_t rollout, int64_t count) {
  std::vector<int64_t> rows = std::exchange(rows_[rollout], {});
  live_ -= static_cast<int64_t>(rows.size());
  rows.resize(count);
  return states_.index_select(0, at::tensor(rows, at::kLong).to(states_.device()));
}

}  // namespace keel
