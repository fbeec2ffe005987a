#pragma once

// Counter-based random numbers: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011). A draw is a pure function of a key and a counter, so nothing has a generator state to save or to share between
// threads. No includes: this header is also compiled by nvcc into the CUDA kernels, which must draw the same numbers.

#ifdef __CUDACC__
#define KEEL_HOST_DEVICE __host__ __device__
#else
#define KEEL_HOST_DEVICE
#endif

namespace keel {

struct PhiloxBlock {
  unsigned int word[4];
};

KEEL_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter, unsigned int key0, unsigned int key1) {
  for (int round = 0; round < 10; ++round) {
    const unsigned long long product0 = 0xD2511F53ull * counter.word[0];
    const unsigned long long product1 = 0xCD9E8D57ull * counter.word[2];
    counter = {{static_cast<unsigned int>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<unsigned int>(product1),
                static_cast<unsigned int>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<unsigned int>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// What a stream of randomness is for; streams with the same seed never meet.
enum class Stream : unsigned int {
  kSampling = 1,
  kInitialWeights = 2,
  kTaskProblems = 3,
  kDemonstrations = 4,
  kShuffle = 5,
  kEvaluation = 6,
  kLogitNoise = 7,
  kAdapterWeights = 8,
};

/// Four words for (seed, stream, id, position, block). `id` is a rollout, an example or a parameter; `block` numbers
/// groups of four words at one position. Streams below 2^8, blocks below 2^24.
KEEL_HOST_DEVICE inline PhiloxBlock random_block(unsigned long long seed, Stream stream, unsigned long long id,
                                                 unsigned int position, unsigned int block) {
  const PhiloxBlock counter{{static_cast<unsigned int>(id), static_cast<unsigned int>(id >> 32), position,
                             (static_cast<unsigned int>(stream) << 24) | (block & 0xFFFFFFu)}};
  return philox(counter, static_cast<unsigned int>(seed), static_cast<unsigned int>(seed >> 32));
}

/// A word as a number strictly between 0 and 1, from all its bits: the middle of one of 2^32 intervals, as near as
/// float32 comes to it. Next to 0 that has every digit; next to 1 it is held at the largest number below it.
KEEL_HOST_DEVICE inline float uniform(unsigned int word) {
  const float middle = (static_cast<float>(word) + 0.5f) * (1.0f / 4294967296.0f);
  return middle < 1.0f ? middle : 1.0f - 1.0f / 16777216.0f;
}

}  // namespace keel
