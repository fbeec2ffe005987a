#pragma once

#include "keel/core/philox.h"

namespace keel {

/// Parameters of a dropout mask. The mask is a pure function of them, of the token's sequence and position, and of the
/// column. It does not depend on the batch or the device.
struct DropoutNoise {
  unsigned long long seed;
  unsigned long long pass;  // update and layer, above the bits of a sequence
  unsigned int threshold;   // a column is dropped if its random word is below this
  float scale;              // of the other columns
};

constexpr int kDropoutSequenceBits = 25, kDropoutLayerBits = 12;

/// Factors of the columns 4 block to 4 block + 3 of a token.
struct DropoutFactors {
  float of[4];

  KEEL_HOST_DEVICE DropoutFactors(const DropoutNoise& noise, unsigned long long sequence, unsigned int position,
                                  unsigned int block) {
    const PhiloxBlock drawn = random_block(noise.seed, Stream::kAdapterDropout, noise.pass | sequence, position, block);
    for (int i = 0; i < 4; ++i) of[i] = drawn.word[i] < noise.threshold ? 0.0f : noise.scale;
  }
};

}  // namespace keel
