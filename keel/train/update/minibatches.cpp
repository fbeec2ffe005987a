#include "keel/train/update/minibatches.h"

#include <algorithm>
#include <numeric>

namespace keel {

std::vector<std::vector<int64_t>> minibatches(int64_t total, int64_t size, int64_t block_size, RandomSequence draws) {
  std::vector<int64_t> blocks(total / block_size);
  std::iota(blocks.begin(), blocks.end(), 0);
  for (size_t i = blocks.size() - 1; i > 0; --i)
    std::swap(blocks[i], blocks[draws.below(static_cast<uint32_t>(i + 1))]);
  std::vector<std::vector<int64_t>> result;
  const int64_t blocks_per_minibatch = size / block_size;
  for (auto next = blocks.begin(); next != blocks.end(); next += blocks_per_minibatch) {
    std::sort(next, next + blocks_per_minibatch);  // adjacent completions share their prompt in packing
    std::vector<int64_t>& minibatch = result.emplace_back();
    for (auto block = next; block != next + blocks_per_minibatch; ++block)
      for (int64_t i = 0; i < block_size; ++i) minibatch.push_back(*block * block_size + i);
  }
  return result;
}

std::vector<std::optional<int64_t>> remove_unscored(std::vector<Rollout>& rollouts) {
  std::vector<std::optional<int64_t>> new_index;
  int64_t next = 0;
  for (const Rollout& rollout : rollouts)
    new_index.push_back(rollout.has_reward ? std::optional(next++) : std::nullopt);
  std::erase_if(rollouts, [](const Rollout& rollout) { return !rollout.has_reward; });
  return new_index;
}

std::vector<int64_t> remap_indices(std::span<const int64_t> indices,
                                   std::span<const std::optional<int64_t>> new_index) {
  std::vector<int64_t> result;
  for (const int64_t old : indices)
    if (new_index[static_cast<size_t>(old)]) result.push_back(*new_index[static_cast<size_t>(old)]);
  return result;
}

double mask_truncated_rollouts(std::span<const Rollout> rollouts, std::span<std::optional<int64_t>> new_index) {
  double masked = 0;
  for (std::optional<int64_t>& index : new_index) {
    if (!index || rollouts[static_cast<size_t>(*index)].finish != Finish::kLength) continue;
    index.reset();
    ++masked;
  }
  return rollouts.empty() ? 0 : masked / static_cast<double>(rollouts.size());
}

}  // namespace keel
