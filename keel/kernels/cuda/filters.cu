#include <cmath>

#include "keel/kernels/cuda/filters.h"

namespace keel::cuda {
namespace {

constexpr int kFilterThreads = 1024, kFilterWarps = kFilterThreads / 32, kBins = 256;
using Mass = unsigned long long;

/// An integer with the order of the logits.
__device__ uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 becomes 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ float logit_of(uint32_t key) { return __uint_as_float(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key); }

/// A row's unnormalised probabilities as integers, whose sums do not depend on the order of addition. No sum over the
/// vocabulary overflows.
struct Masses {
  double largest, inverse_temperature, scale;
  __device__ Mass operator()(float logit) const {
    const double x = (static_cast<double>(logit) - largest) * inverse_temperature;
    return x > -100 ? static_cast<Mass>(std::exp(x) * scale + 0.5) : 0;  // 0 for NaN
  }
};

/// The mass 1 for each token, which counts them.
struct Ones {
  __device__ Mass operator()(float logit) const { return isnan(logit) ? 0 : 1; }
};

/// Calls use(token, logit) for all tokens of a row. All threads make the same number of calls: beyond the vocabulary
/// the logit is -inf.
template <typename Use>
__device__ void for_each_token(const float* row, long long vocab, const Use& use) {
  constexpr int kLoads = 4;  // in flight at a time
  for (long long begin = 0; begin < vocab; begin += kLoads * kFilterThreads) {
    const long long first = begin + threadIdx.x;
    float logits[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      logits[i] = first + i * kFilterThreads < vocab ? row[first + i * kFilterThreads] : -INFINITY;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) use(first + i * kFilterThreads, logits[i]);
  }
}

__device__ float largest_in_block(const float* row, long long vocab) {
  __shared__ float largest_of[kFilterWarps];
  float largest = -INFINITY;
  for_each_token(row, vocab, [&](long long, float logit) { largest = fmaxf(largest, logit); });
  for (int apart = 16; apart > 0; apart /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, apart));
  if (threadIdx.x % 32 == 0) largest_of[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int w = 0; w < kFilterWarps; ++w) largest = fmaxf(largest, largest_of[w]);
  return largest;
}

/// A sum in two halves: shared memory has atomic additions of 32 bits only, and loops for 64.
struct AtomicMass {
  uint32_t low, high;
  __device__ void add(Mass mass) {
    const auto added = static_cast<uint32_t>(mass);
    const uint32_t before = atomicAdd(&low, added);
    atomicAdd(&high, static_cast<uint32_t>(mass >> 32) + (before + added < before ? 1 : 0));
  }
  __device__ Mass value() const { return static_cast<Mass>(high) << 32 | low; }
};

/// Adds the mass of each lane to its bin. Lanes that share a bin are summed first, as long as few bins are left.
__device__ void add_to_bins(AtomicMass* histogram, uint32_t bin, Mass mass) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t left = __ballot_sync(~0u, mass > 0);
  for (int round = 0; round < 4 && left != 0; ++round) {
    const uint32_t shared = __shfl_sync(~0u, bin, __ffs(static_cast<int>(left)) - 1);
    const bool same = mass > 0 && bin == shared;
    Mass sum = same ? mass : 0;
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (lane == 0) histogram[shared].add(sum);
    left &= ~__ballot_sync(~0u, same);
  }
  if ((left >> lane & 1) != 0) histogram[bin].add(mass);
}

/// The logit of the least likely token inside, and the number of tokens with this logit that are inside.
struct Boundary {
  uint32_t key;
  Mass count;
};

/// Finds the first logit, from the largest down, at which the sum of the masses reaches target(total mass). Finds it
/// digit by digit: a histogram of the mass of each digit, for keys with the digits found so far.
template <typename MassOf, typename Target>
__device__ Boundary find_boundary(const float* row, long long vocab, const MassOf& mass, const Target& target_of) {
  __shared__ AtomicMass histogram[kBins];
  __shared__ Mass target, above;
  __shared__ uint32_t key;
  if (threadIdx.x == 0) key = 0, above = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int bin = threadIdx.x; bin < kBins; bin += kFilterThreads) histogram[bin] = {0, 0};
    __syncthreads();
    const uint32_t found = shift == 24 ? 0 : key >> (shift + 8);
    for_each_token(row, vocab, [&](long long token, float logit) {
      const uint32_t other = key_of(logit);
      const bool counts = token < vocab && (shift == 24 || other >> (shift + 8) == found);
      add_to_bins(histogram, other >> shift & 0xFF, counts ? mass(logit) : 0);
    });
    __syncthreads();
    if (threadIdx.x == 0) {
      if (shift == 24) {
        Mass total = 0;
        for (const AtomicMass& bin : histogram) total += bin.value();
        target = target_of(total);
      }
      int bin = kBins - 1;
      for (; bin > 0 && above + histogram[bin].value() < target; --bin) above += histogram[bin].value();
      key |= static_cast<uint32_t>(bin) << shift;
    }
    __syncthreads();
  }
  const Mass each = mass(logit_of(key));  // 0 if no token has a mass
  return {key, each == 0 ? 0 : (target - above + each - 1) / each};
}

/// One thread block per row.
__global__ void __launch_bounds__(kFilterThreads)
    top_k_kernel(const float* logits, long long vocab, long long k, float* kept) {
  const float* const row = logits + blockIdx.x * vocab;
  float* const to = kept + blockIdx.x * vocab;
  const uint32_t smallest = find_boundary(row, vocab, Ones{}, [&](Mass) { return static_cast<Mass>(k); }).key;
  for_each_token(row, vocab, [&](long long token, float logit) {
    if (token < vocab) to[token] = key_of(logit) >= smallest || isnan(logit) ? logit : -INFINITY;
  });
}

/// One thread block per row.
__global__ void __launch_bounds__(kFilterThreads)
    top_p_kernel(const float* logits, long long vocab, double inverse_temperature, double top_p, float* kept) {
  __shared__ int equal_of[kFilterWarps];
  const float* const row = logits + blockIdx.x * vocab;
  float* const to = kept + blockIdx.x * vocab;
  const Masses mass{largest_in_block(row, vocab), inverse_temperature,
                    std::ldexp(1.0, 62) / static_cast<double>(vocab)};
  const Boundary boundary = find_boundary(
      row, vocab, mass, [&](Mass total) { return static_cast<Mass>(std::ceil(top_p * static_cast<double>(total))); });
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Mass before = 0;  // tokens at the boundary with lower ids
  for (long long begin = 0; begin < vocab; begin += kFilterThreads) {
    const long long token = begin + threadIdx.x;
    const float logit = token < vocab ? row[token] : -INFINITY;
    const uint32_t key = key_of(logit);
    const bool equal = token < vocab && key == boundary.key;
    const uint32_t equals = __ballot_sync(~0u, equal);
    __syncthreads();
    if (lane == 0) equal_of[warp] = __popc(equals);
    __syncthreads();
    Mass index = before + __popc(equals & ((1u << lane) - 1));
    for (int w = 0; w < kFilterWarps; ++w) {
      if (w < warp) index += equal_of[w];
      before += equal_of[w];
    }
    const bool inside = equal ? index < boundary.count : key > boundary.key;
    if (token < vocab) to[token] = inside || isnan(logit) ? logit : -INFINITY;
  }
}

}  // namespace

int keep_top_k(const float* logits, int64_t rows, int64_t vocab, int64_t k, float* kept, void* stream) {
  if (rows == 0) return 0;
  top_k_kernel<<<static_cast<unsigned int>(rows), kFilterThreads, 0, static_cast<cudaStream_t>(stream)>>>(logits, vocab,
                                                                                                          k, kept);
  return static_cast<int>(cudaGetLastError());
}

int keep_top_p(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature, double top_p, float* kept,
               void* stream) {
  if (rows == 0) return 0;
  top_p_kernel<<<static_cast<unsigned int>(rows), kFilterThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, vocab, inverse_temperature, top_p, kept);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
