#pragma once

#include <cstdint>

namespace keel {

/// Where the row is that comes `index`-th in a pass over `rows` rows: a permutation for each seed and pass, computed
/// without holding it ("swap or not", Hoang, Morris, Rogaway 2012).
uint64_t shuffled_row(uint64_t seed, uint64_t pass, uint64_t index, uint64_t rows);

}  // namespace keel
