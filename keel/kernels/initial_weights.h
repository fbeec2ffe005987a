#pragma once

#include <cmath>

#include "keel/core/philox.h"

namespace keel {

/// Initial weights 2 pair and 2 pair + 1 of a parameter, normally distributed (Box-Muller). A pure function: threads
/// and device do not matter, except for the last bit where two machines' logarithms differ.
struct InitialWeights {
  float of[2];

  KEEL_HOST_DEVICE InitialWeights(double deviation, unsigned long long seed, unsigned long long parameter,
                                  unsigned long long pair) {
    const PhiloxBlock block = random_block(seed, Stream::kInitialWeights, parameter, static_cast<unsigned int>(pair),
                                           static_cast<unsigned int>(pair >> 32));
    const double radius = deviation * std::sqrt(-2.0 * std::log((block.word[0] + 0.5) * 0x1p-32));
    const double angle = 2.0 * 3.141592653589793 * (block.word[1] * 0x1p-32);
    of[0] = static_cast<float>(radius * std::cos(angle));
    of[1] = static_cast<float>(radius * std::sin(angle));
  }
};

}  // namespace keel
