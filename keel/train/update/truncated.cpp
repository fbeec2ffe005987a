#include "keel/train/update/truncated.h"

namespace keel {

double leave_out_truncated(std::span<const Rollout> rollouts, std::span<std::optional<int64_t>> places) {
  double left_out = 0;
  for (std::optional<int64_t>& place : places) {
    if (!place || rollouts[static_cast<size_t>(*place)].finish != Finish::kLength) continue;
    place.reset();
    ++left_out;
  }
  return rollouts.empty() ? 0 : left_out / static_cast<double>(rollouts.size());
}

}  // namespace keel
