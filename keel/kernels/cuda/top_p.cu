#include <cmath>

#include "keel/kernels/cuda/top_p.h"

namespace keel::cuda {
namespace {

constexpr int kTopPThreads = 1024, kTopPWarps = kTopPThreads / 32, kBins = 256;
using Mass = unsigned long long;

/// An integer with the order of the logits.
__device__ uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/// A row's unnormalised probabilities as integers, whose sums do not depend on the order of addition. No sum over the
/// vocabulary overflows.
struct Masses {
  double largest, inverse_temperature, scale;
  __device__ Mass operator()(float logit) const {
    const double x = (static_cast<double>(logit) - largest) * inverse_temperature;
    return x > -100 ? static_cast<Mass>(std::exp(x) * scale + 0.5) : 0;  // 0 for NaN
  }
};

__device__ float largest_in_block(const float* row, long long vocab) {
  __shared__ float largest_of[kTopPWarps];
  float largest = -INFINITY;
  for (long long token = threadIdx.x; token < vocab; token += kTopPThreads) largest = fmaxf(largest, row[token]);
  for (int apart = 16; apart > 0; apart /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, apart));
  if (threadIdx.x % 32 == 0) largest_of[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int w = 0; w < kTopPWarps; ++w) largest = fmaxf(largest, largest_of[w]);
  return largest;
}

/// The logit of the nucleus's least likely token, and the number of tokens with this logit that are inside.
struct Boundary {
  uint32_t key;
  Mass count;
};

/// Finds the boundary digit by digit: a histogram of the mass of each digit, for keys with the digits found so far.
__device__ Boundary find_boundary(const float* row, long long vocab, double top_p, const Masses& mass) {
  __shared__ Mass histogram[kBins], target, above;
  __shared__ uint32_t key;
  __shared__ float boundary_logit;
  if (threadIdx.x == 0) key = 0, above = 0, boundary_logit = NAN;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int bin = threadIdx.x; bin < kBins; bin += kTopPThreads) histogram[bin] = 0;
    __syncthreads();
    const uint32_t found = shift == 24 ? 0 : key >> (shift + 8);
    for (long long token = threadIdx.x; token < vocab; token += kTopPThreads) {
      const uint32_t other = key_of(row[token]);
      if (shift < 24 && other >> (shift + 8) != found) continue;
      if (const Mass m = mass(row[token]); m > 0) atomicAdd(&histogram[other >> shift & 0xFF], m);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      if (shift == 24) {
        Mass total = 0;
        for (const Mass m : histogram) total += m;
        target = static_cast<Mass>(std::ceil(top_p * static_cast<double>(total)));
      }
      int bin = kBins - 1;
      for (; bin > 0 && above + histogram[bin] < target; --bin) above += histogram[bin];
      key |= static_cast<uint32_t>(bin) << shift;
    }
    __syncthreads();
  }
  for (long long token = threadIdx.x; token < vocab; token += kTopPThreads)
    if (key_of(row[token]) == key) boundary_logit = row[token];  // all such logits are equal
  __syncthreads();
  const Mass each = mass(boundary_logit);
  return {key, each == 0 ? 0 : (target - above + each - 1) / each};
}

/// One thread block per row.
__global__ void __launch_bounds__(kTopPThreads)
    top_p_kernel(const float* logits, long long vocab, double inverse_temperature, double top_p, float* kept) {
  __shared__ int equal_of[kTopPWarps];
  const float* const row = logits + blockIdx.x * vocab;
  float* const to = kept + blockIdx.x * vocab;
  const Masses mass{largest_in_block(row, vocab), inverse_temperature,
                    std::ldexp(1.0, 62) / static_cast<double>(vocab)};
  const Boundary boundary = find_boundary(row, vocab, top_p, mass);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Mass before = 0;  // tokens at the boundary with lower ids
  for (long long begin = 0; begin < vocab; begin += kTopPThreads) {
    const long long token = begin + threadIdx.x;
    const float logit = token < vocab ? row[token] : -INFINITY;
    const uint32_t key = key_of(logit);
    const bool equal = token < vocab && key == boundary.key;
    const uint32_t equals = __ballot_sync(~0u, equal);
    __syncthreads();
    if (lane == 0) equal_of[warp] = __popc(equals);
    __syncthreads();
    Mass index = before + __popc(equals & ((1u << lane) - 1));
    for (int w = 0; w < kTopPWarps; ++w) {
      if (w < warp) index += equal_of[w];
      before += equal_of[w];
    }
    const bool inside = equal ? index < boundary.count : key > boundary.key;
    if (token < vocab) to[token] = inside || isnan(logit) ? logit : -INFINITY;
  }
}

}  // namespace

int keep_top_p(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature, double top_p, float* kept,
               void* stream) {
  if (rows == 0) return 0;
  top_p_kernel<<<static_cast<unsigned int>(rows), kTopPThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, vocab, inverse_temperature, top_p, kept);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
