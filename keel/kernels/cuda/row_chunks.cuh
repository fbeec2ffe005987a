#pragma once

#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/row_math.h"

// Sums over rows of logits that read each logit once: thread blocks keep chunks of a row in registers, and the results
// are merged per row. Trainer and sampler share this code, so that equal logits give equal bits.

namespace keel::cuda {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kQuads = 4;                      // groups of four logits per thread
constexpr int kChunk = kThreads * kQuads * 4;  // logits per thread block

struct TwoLargest {
  float first, second;
};

__device__ inline TwoLargest merge_two(TwoLargest a, TwoLargest b) {
  return a.first >= b.first ? TwoLargest{a.first, fmaxf(a.second, b.first)}
                            : TwoLargest{b.first, fmaxf(b.second, a.first)};
}

__device__ inline TwoLargest two_in_warp(TwoLargest two) {
  for (int apart = 16; apart > 0; apart /= 2)
    two = merge_two(two, {__shfl_xor_sync(~0u, two.first, apart), __shfl_xor_sync(~0u, two.second, apart)});
  return two;
}

__device__ inline double sum_in_warp(double sum) {
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  return sum;
}

/// Sums over a chunk of a row.
struct Chunk {
  TwoLargest two;
  float centre;
  double total, weighted;  // as in RowSums, measured from `centre`
};

inline int64_t num_chunks(int64_t vocab) { return (vocab + kChunk - 1) / kChunk; }

/// The logits of this thread: z[i] are those of four adjacent tokens from first_token(i) on, -inf beyond the
/// vocabulary.
struct ThreadLogits {
  float z[kQuads][4];

  __device__ static long long first_token(int i) {
    return static_cast<long long>(blockIdx.x) * kChunk + (i * kThreads + threadIdx.x) * 4;
  }
  __device__ ThreadLogits(const float* row, long long vocab) {
    const bool aligned = vocab % 4 == 0;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const long long token = first_token(i);
      if (aligned && token < vocab) {
        const float4 four = *reinterpret_cast<const float4*>(row + token);
        z[i][0] = four.x, z[i][1] = four.y, z[i][2] = four.z, z[i][3] = four.w;
      } else {
        for (int j = 0; j < 4; ++j) z[i][j] = token + j < vocab ? row[token + j] : -INFINITY;
      }
    }
  }

  /// Reduces the logits of all threads of the block. Every thread gets the result.
  __device__ Chunk reduce_chunk(double inverse_temperature) const {
    __shared__ TwoLargest two_of[kWarps];
    __shared__ double total_of[kWarps], weighted_of[kWarps];
    const int warp = threadIdx.x / 32;
    TwoLargest two{-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < kQuads; ++i)
      for (int j = 0; j < 4; ++j) two = {fmaxf(two.first, z[i][j]), fmaxf(two.second, fminf(two.first, z[i][j]))};
    two = two_in_warp(two);
    if (threadIdx.x % 32 == 0) two_of[warp] = two;
    __syncthreads();
    two = two_of[0];
    for (int w = 1; w < kWarps; ++w) two = merge_two(two, two_of[w]);
    // Centre 0 for a chunk of -inf only: NaN must still propagate.
    const float centre = !isinf(two.second) ? two.second : !isinf(two.first) ? two.first : 0.0f;
    const TemperedExp exp(inverse_temperature);
    double total = 0, weighted = 0;
#pragma unroll
    for (int i = 0; i < kQuads; i += 2) {
      float terms[8], moments[8];
      for (int j = 0; j < 8; ++j) {
        // Beyond the vocabulary, as for all negligible logits, the term is 2^-64.
        const float x = exp.clamp(z[i + j / 4][j % 4] - centre);
        terms[j] = exp(x);
        moments[j] = terms[j] * x;
      }
      // No term is above 1, so a float32 sum of eight is accurate enough.
      const auto sum = [](const float(&of)[8]) {
        return ((of[0] + of[1]) + (of[2] + of[3])) + ((of[4] + of[5]) + (of[6] + of[7]));
      };
      total += sum(terms);
      weighted += sum(moments);
    }
    total = sum_in_warp(total);
    weighted = sum_in_warp(weighted);
    if (threadIdx.x % 32 == 0) total_of[warp] = total, weighted_of[warp] = weighted;
    __syncthreads();
    total = total_of[0], weighted = weighted_of[0];
    for (int w = 1; w < kWarps; ++w) total += total_of[w], weighted += weighted_of[w];
    return {two, centre, total, weighted * inverse_temperature};
  }
};

/// Merges the chunks of a row with one warp. Every lane gets the result.
__device__ inline RowNormalizer merge_chunks(const Chunk* chunks, int count, double inverse_temperature) {
  const int lane = threadIdx.x % 32;
  TwoLargest two{-INFINITY, -INFINITY};
  for (int c = lane; c < count; c += 32) two = merge_two(two, chunks[c].two);
  two = two_in_warp(two);
  // Relative to the row's second largest logit no term can overflow: only the row's largest logit is above it, and its
  // term is limited to 1.
  const float centre = isinf(two.second) ? two.first : two.second;
  double total = 0, weighted = 0;
  for (int c = lane; c < count; c += 32) {
    const Chunk chunk = chunks[c];
    // Sums without the chunk's largest token. x - x is 0, or NaN for NaN.
    const bool single = isinf(chunk.two.second);
    const double rest = single ? chunk.total - chunk.total : chunk.total - 1;
    const double shift = single ? 0 : (static_cast<double>(chunk.centre) - centre) * inverse_temperature;
    total += std::exp(shift) * rest;
    weighted += std::exp(shift) * ((single ? 0 : chunk.weighted) + rest * shift);
    if (isinf(chunk.two.first)) continue;
    const double gap = fmin((static_cast<double>(chunk.two.first) - centre) * inverse_temperature, 0.0);
    total += std::exp(gap);
    weighted += std::exp(gap) * gap;
  }
  return make_normalizer({two.first, two.second, sum_in_warp(total), sum_in_warp(weighted)}, inverse_temperature);
}

}  // namespace keel::cuda
