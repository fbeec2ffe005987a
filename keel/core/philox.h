#pragma once

// Counter-based random numbers: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011). A draw is a pure function of a key and a counter, so there is no generator state to save or to share between
// threads. This header has no includes because nvcc compiles it into the CUDA kernels, which must draw the same
// numbers.

#ifdef __CUDACC__
#define KEEL_HOST_DEVICE __host__ __device__
#else
#define KEEL_HOST_DEVICE
#endif

namespace keel {

struct PhiloxBlock {
  unsigned int word[4];
};

/// Returns the upper 32 bits of the 64-bit product.
KEEL_HOST_DEVICE inline unsigned int multiply_high(unsigned int a, unsigned int b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);  // nvcc compiles the other branch to three multiplications
#else
  return static_cast<unsigned int>(static_cast<unsigned long long>(a) * b >> 32);
#endif
}

KEEL_HOST_DEVICE inline PhiloxBlock philox(PhiloxBlock counter, unsigned int key0, unsigned int key1) {
  constexpr unsigned int kFirst = 0xD2511F53u, kSecond = 0xCD9E8D57u;
  for (int round = 0; round < 10; ++round) {
    const auto [a, b, c, d] = counter.word;
    counter = {{multiply_high(kSecond, c) ^ b ^ key0, kSecond * c, multiply_high(kFirst, a) ^ d ^ key1, kFirst * a}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// The purpose of a random stream. Streams with the same seed never share draws.
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

/// Returns four random words for (seed, stream, id, position, block). `id` is a rollout, an example or a parameter;
/// `block` numbers groups of four words at one position. Streams are below 2^8, blocks below 2^24.
KEEL_HOST_DEVICE inline PhiloxBlock random_block(unsigned long long seed, Stream stream, unsigned long long id,
                                                 unsigned int position, unsigned int block) {
  const PhiloxBlock counter{{static_cast<unsigned int>(id), static_cast<unsigned int>(id >> 32), position,
                             (static_cast<unsigned int>(stream) << 24) | (block & 0xFFFFFFu)}};
  return philox(counter, static_cast<unsigned int>(seed), static_cast<unsigned int>(seed >> 32));
}

/// Maps a word to a number strictly between 0 and 1: the middle of one of 2^32 intervals, rounded to float32. Values
/// that would round to 1 become the largest float32 below 1.
KEEL_HOST_DEVICE inline float uniform(unsigned int word) {
  const float middle = (static_cast<float>(word) + 0.5f) * (1.0f / 4294967296.0f);
  return middle < 1.0f ? middle : 1.0f - 1.0f / 16777216.0f;
}

}  // namespace keel
