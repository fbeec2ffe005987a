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

/// The upper half of a product of 64 bits.
KEEL_HOST_DEVICE inline unsigned int high_product(unsigned int a, unsigned int b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);  // of the other way nvcc makes products of 64 bits, which are three
#else
  return static_cast<unsigned int>(static_cast<unsigned long long>(a) * b >> 32);
#endif
}

KEEL_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter, unsigned int key0, unsigned int key1) {
  constexpr unsigned int kFirst = 0xD2511F53u, kSecond = 0xCD9E8D57u;
  for (int round = 0; round < 10; ++round) {
    const auto [a, b, c, d] = counter.word;
    counter = {{high_product(kSecond, c) ^ b ^ key0, kSecond * c, high_product(kFirst, a) ^ d ^ key1, kFirst * a}};
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
  kAdapterDropout = 9,
  kTokenRecords = 10,
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
