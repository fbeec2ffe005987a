#pragma once

#include "keel/core/philox.h"

namespace keel {

/// What a dropout leaves out is a pure function of this, of the token (its sequence and its position there) and of the
/// column: neither the batch that a token is computed in nor the device has a part in it.
struct DropoutNoise {
  unsigned long long seed;
  unsigned long long pass;     // of the update and the layer, above the bits of a sequence
  unsigned int dropped_below;  // a column whose word is below this is left out
  float scale;                 // of all others
};

constexpr int kDropoutSequenceBits = 25, kDropoutLayerBits = 12;

/// What the columns 4 block to 4 block + 3 of a token are multiplied with.
struct DropoutFactors {
  float of[4];

  KEEL_HOST_DEVICE DropoutFactors(const DropoutNoise& noise, unsigned long long sequence, unsigned int position,
                                  unsigned int block) {
    const PhiloxBlock drawn = random_block(noise.seed, Stream::kAdapterDropout, noise.pass | sequence, position, block);
    for (int i = 0; i < 4; ++i) of[i] = drawn.word[i] < noise.dropped_below ? 0.0f : noise.scale;
  }
};

}  // namespace keel
