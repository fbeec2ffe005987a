#include "keel/train/update/minibatches.h"

#include <algorithm>
#include <numeric>

namespace keel {

std::vector<std::vector<int64_t>> minibatches(int64_t total, int64_t size, int64_t together, Draws draws) {
  std::vector<int64_t> blocks(total / together);
  std::iota(blocks.begin(), blocks.end(), 0);
  for (size_t i = blocks.size() - 1; i > 0; --i)
    std::swap(blocks[i], blocks[draws.below(static_cast<uint32_t>(i + 1))]);
  std::vector<std::vector<int64_t>> result;
  const int64_t blocks_per_minibatch = size / together;
  for (auto next = blocks.begin(); next != blocks.end(); next += blocks_per_minibatch) {
    std::sort(next, next + blocks_per_minibatch);  // completions of one prompt side by side share it
    std::vector<int64_t>& minibatch = result.emplace_back();
    for (auto block = next; block != next + blocks_per_minibatch; ++block)
      for (int64_t i = 0; i < together; ++i) minibatch.push_back(*block * together + i);
  }
  return result;
}

std::vector<std::optional<int64_t>> remove_unscored(std::vector<Rollout>& rollouts) {
  std::vector<std::optional<int64_t>> now;
  int64_t next = 0;
  for (const Rollout& rollout : rollouts) now.push_back(rollout.judged ? std::optional(next++) : std::nullopt);
  std::erase_if(rollouts, [](const Rollout& rollout) { return !rollout.judged; });
  return now;
}

std::vector<int64_t> remap_indices(std::span<const int64_t> before, std::span<const std::optional<int64_t>> now) {
  std::vector<int64_t> places;
  for (const int64_t place : before)
    if (now[static_cast<size_t>(place)]) places.push_back(*now[static_cast<size_t>(place)]);
  return places;
}

double mask_truncated_rollouts(std::span<const Rollout> rollouts, std::span<std::optional<int64_t>> places) {
  double left_out = 0;
  for (std::optional<int64_t>& place : places) {
    if (!place || rollouts[static_cast<size_t>(*place)].finish != Finish::kLength) continue;
    place.reset();
    ++left_out;
  }
  return rollouts.empty() ? 0 : left_out / static_cast<double>(rollouts.size());
}

}  // namespace keel
