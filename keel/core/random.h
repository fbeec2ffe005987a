#pragma once

#include <cstdint>

#include "keel/core/philox.h"

namespace keel {

/// A short sequence of draws for one object (an example, a shuffle). The counter is the position in the sequence.
class RandomSequence {
 public:
  RandomSequence(uint64_t seed, Stream stream, uint64_t id) : seed_(seed), stream_(stream), id_(id) {}

  uint32_t word() {
    const uint32_t index = drawn_++;
    if (index % 4 == 0) block_ = random_block(seed_, stream_, id_, index / 4, 0);
    return block_.word[index % 4];
  }

  /// Uniform in 0..n-1 without bias: words in the incomplete last interval are rejected.
  uint32_t below(uint32_t n) {
    const uint32_t reject_below = (0u - n) % n;
    uint64_t product = static_cast<uint64_t>(word()) * n;
    while (static_cast<uint32_t>(product) < reject_below) product = static_cast<uint64_t>(word()) * n;
    return static_cast<uint32_t>(product >> 32);
  }

  double uniform() { return (word() + 0.5) * (1.0 / 4294967296.0); }

 private:
  uint64_t seed_;
  Stream stream_;
  uint64_t id_;
  uint32_t drawn_ = 0;
  PhiloxBlock block_{};
};

}  // namespace keel
