#include "keel/data/row_order.h"

#include <algorithm>
#include <bit>

#include "keel/core/philox.h"

namespace keel {

uint64_t shuffled_row(uint64_t seed, uint64_t pass, uint64_t index, uint64_t rows) {
  // Each round pairs row x with row key - x and swaps the pair or not, by a random bit of the pair.
  const unsigned rounds = 6 * static_cast<unsigned>(std::bit_width(rows)) + 6;
  for (unsigned round = 1; round <= rounds; ++round) {
    const auto draw = [&](uint64_t id) {  // block 0 belongs to other shuffles
      return random_block(seed, Stream::kShuffle, id, static_cast<unsigned>(pass), round);
    };
    const PhiloxBlock words = draw(~uint64_t{0});
    const uint64_t key = (uint64_t{words.word[0]} << 32 | words.word[1]) % rows;
    const uint64_t partner = (key + rows - index) % rows;
    if (draw(std::max(index, partner)).word[0] & 1) index = partner;
  }
  return index;
}

}  // namespace keel
