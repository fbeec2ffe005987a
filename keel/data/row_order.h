#pragma once

#include <cstdint>

namespace keel {

/// The row at `index` of a shuffled pass over `rows` rows. Computes the permutation of (seed, pass) without storing it
/// ("swap or not", Hoang, Morris, Rogaway 2012).
uint64_t shuffled_row(uint64_t seed, uint64_t pass, uint64_t index, uint64_t rows);

}  // namespace keel
