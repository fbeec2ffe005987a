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

}  // namespace keel
