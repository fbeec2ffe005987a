#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/row_chunks.cuh"
#include "keel/kernels/cuda/sample.h"

namespace keel::cuda {
namespace {

/// A logit and its token as one integer, whose order is that of the logits; of equal logits the smaller token ranks
/// higher. No logit has rank 0.
__device__ uint64_t rank_of(float logit, uint32_t token) {
  const uint32_t bits = __float_as_uint(logit), ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | (0xFFFFFFFFu - token);
}
__device__ uint32_t token_of(uint64_t rank) { return 0xFFFFFFFFu - static_cast<uint32_t>(rank); }
__device__ float logit_of(uint64_t rank) {
  const auto ordered = static_cast<uint32_t>(rank >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7FFFFFFFu : ~ordered);
}

/// Sorts in descending order (bitonic); `count` is a power of two.
__device__ void sort_ranks(uint64_t* ranks, int count) {
  for (int size = 2; size <= count; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < count / 2; i += kThreads) {
        const int low = i / apart * apart * 2 + i % apart, high = low + apart;
        const uint64_t a = ranks[low], b = ranks[high];
        if ((a < b) == ((low & size) == 0)) ranks[low] = b, ranks[high] = a;
      }
    }
  __syncthreads();
}

/// The value of a warp's lanes at `index` in descending order.
__device__ float nth_largest_in_warp(float value, int index) {
  const int lane = threadIdx.x % 32;
  for (int size = 2; size <= 32; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
      const float other = __shfl_xor_sync(~0u, value, apart);
      const bool keeps_larger = ((lane & size) == 0) == ((lane & apart) == 0);
      value = keeps_larger ? fmaxf(value, other) : fminf(value, other);
    }
  return __shfl_sync(~0u, value, index);
}

__device__ int round_up_to_power_of_two(int value) { return value <= 1 ? 1 : 1 << (32 - __clz(value - 1)); }

constexpr int kNoToken = 0x7FFFFFFF;

struct Candidate {
  float value, logit;  // value: tempered logit plus Gumbel noise
  int token;
};

/// The better of two; the smaller token among equals, so that the result does not depend on the order of the threads.
__device__ Candidate better(const Candidate& a, const Candidate& b) {
  return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

__device__ Candidate best_in_warp(Candidate best) {
  for (int apart = 16; apart > 0; apart /= 2)
    best = better(best, {__shfl_xor_sync(~0u, best.value, apart), __shfl_xor_sync(~0u, best.logit, apart),
                         __shfl_xor_sync(~0u, best.token, apart)});
  return best;
}

constexpr int kMaxKept = 48 * kQuads;  // top-k candidates of a chunk that are passed to the row
constexpr int kMaxSorted = static_cast<int>(kMaxTopK) * kQuads * 4;

/// Candidates of a chunk.
struct ChunkCandidates {
  Candidate sampled;  // its value is relative to the chunk's largest logit
  uint64_t min_rank;  // at least top_k tokens of the chunk have this rank or a higher one
  int kept;           // top-k candidates that are passed on
};

__device__ PhiloxBlock noise_words(const SampleRequest& request, int row, long long token) {
  return random_block(request.seed, Stream::kSampling, static_cast<unsigned long long>(request.rollout_ids[row]),
                      static_cast<unsigned int>(request.positions[row]), static_cast<unsigned int>(token / 4));
}

__device__ float gumbel_noise(const SampleRequest& request, int row, long long token) {
  return gumbel(noise_words(request, row, token).word[token % 4]);
}

constexpr float kLog2 = 0.6931472f;

/// Does not handle subnormal numbers.
__device__ float fast_log2(float x) {
  float log2;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log2) : "f"(x));
  return log2;
}

/// Calls body(logit, token) for each of this thread's tokens.
template <class Body>
__device__ void for_tokens(const ThreadLogits& logits, long long vocab, const Body& body) {
#pragma unroll
  for (int i = 0; i < kQuads; ++i)
    for (int j = 0; j < 4; ++j) {
      const long long token = ThreadLogits::first_token(i) + j;
      if (token < vocab) body(logits.z[i][j], static_cast<uint32_t>(token));
    }
}

/// This thread's token with the largest logit.
__device__ __forceinline__ Candidate largest_token(const ThreadLogits& logits, long long vocab) {
  Candidate best{-INFINITY, -INFINITY, kNoToken};
  for_tokens(logits, vocab, [&](float logit, uint32_t token) {
    best = better(best, {logit, logit, static_cast<int>(token)});
  });
  return best;
}

/// Computes upper bounds of the tokens' noisy logits by a fast logarithm, whose error is far below 0.01. Returns a
/// lower bound of the chunk's largest one: noise <= -log u, and noise >= -log u - 0.33 if u <= 1/2.
__device__ __forceinline__ float bound_noisy_logits(const ThreadLogits& logits, float largest,
                                                    const SampleRequest& request, int row, float (&upper)[kQuads][4]) {
  const auto inverse_temperature = static_cast<float>(1 / request.temperature);
  __shared__ float bound_of[kWarps];
  float bound = -INFINITY;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const PhiloxBlock noise = noise_words(request, row, ThreadLogits::first_token(i));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float tempered = fmaf(logits.z[i][j] - largest, inverse_temperature, 32 * kLog2);
      upper[i][j] = fmaf(fast_log2(static_cast<float>(noise.word[j]) + 0.5f), -kLog2, tempered);
      if (noise.word[j] < 0x80000000u) bound = fmaxf(bound, upper[i][j]);
    }
  }
  for (int apart = 16; apart > 0; apart /= 2) bound = fmaxf(bound, __shfl_xor_sync(~0u, bound, apart));
  if (threadIdx.x % 32 == 0) bound_of[threadIdx.x / 32] = bound;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) bound = fmaxf(bound, bound_of[w]);
  return bound - 0.35f;
}

/// This thread's token with the largest noisy logit. Skips tokens whose upper bound is below the largest.
__device__ __forceinline__ Candidate largest_noisy_token(const ThreadLogits& logits, float largest,
                                                         const SampleRequest& request, int row) {
  float upper[kQuads][4];
  const float bound = bound_noisy_logits(logits, largest, request, row, upper);
  const auto inverse_temperature = static_cast<float>(1 / request.temperature);
  uint32_t contenders = 0;  // one bit per token
#pragma unroll
  for (int i = 0; i < kQuads; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) contenders |= upper[i][j] >= bound ? 1u << (4 * i + j) : 0u;
  Candidate best{-INFINITY, -INFINITY, kNoToken};
  for (; contenders != 0; contenders &= contenders - 1) {
    const int index = __ffs(static_cast<int>(contenders)) - 1;
    const long long token = ThreadLogits::first_token(index / 4) + index % 4;
    if (token >= request.vocab) continue;
    const float logit = request.logits[row * request.vocab + token];
    const float tempered = (logit - largest) * inverse_temperature;
    best = better(best, {tempered + gumbel_noise(request, row, token), logit, static_cast<int>(token)});
  }
  return best;
}

struct TopKScratch {
  uint64_t ranks[kMaxSorted];
  float warp_bounds[kWarps];
  int kept;  // candidates in `ranks`
};

/// A logit that at least top_k / kWarps threads of this warp reach. At least top_k tokens of the chunk, and usually not
/// many more, reach the least bound of all warps.
__device__ __forceinline__ float bound_top_k_in_warp(const ThreadLogits& logits, int top_k) {
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kQuads; ++i)
    for (int j = 0; j < 4; ++j) largest = fmaxf(largest, logits.z[i][j]);
  return nth_largest_in_warp(largest, (top_k + kWarps - 1) / kWarps - 1);
}

/// If more than kMaxKept tokens pass the bound, keeps the sorted top_k. Fewer than top_k threads have a token above the
/// returned rank, the top_k-th of the threads' largest ranks.
__device__ __forceinline__ uint64_t sort_top_k(const ThreadLogits& logits, long long vocab, int top_k, TopKScratch& s) {
  uint64_t largest = 0;
  for_tokens(logits, vocab, [&](float logit, uint32_t token) { largest = max(largest, rank_of(logit, token)); });
  __syncthreads();
  s.ranks[threadIdx.x] = largest;
  if (threadIdx.x == 0) s.kept = 0;
  sort_ranks(s.ranks, kThreads);
  const uint64_t min_rank = max(s.ranks[top_k - 1], uint64_t{1});
  __syncthreads();
  for_tokens(logits, vocab, [&](float logit, uint32_t token) {
    if (const uint64_t rank = rank_of(logit, token); rank >= min_rank) s.ranks[atomicAdd(&s.kept, 1)] = rank;
  });
  __syncthreads();
  const int count = s.kept, padded = round_up_to_power_of_two(max(count, top_k));
  for (int i = count + threadIdx.x; i < padded; i += kThreads) s.ranks[i] = 0;
  sort_ranks(s.ranks, padded);
  if (threadIdx.x == 0) s.kept = min(count, top_k);
  __syncthreads();
  return min_rank;
}

/// Collects the chunk's top-k candidates; s.kept is 0 before. Returns a rank that at least top_k tokens reach.
__device__ __forceinline__ uint64_t collect_top_k(const ThreadLogits& logits, long long vocab, int top_k,
                                                  TopKScratch& s) {
  float bound = s.warp_bounds[0];
  for (int w = 1; w < kWarps; ++w) bound = fminf(bound, s.warp_bounds[w]);
  for_tokens(logits, vocab, [&](float logit, uint32_t token) {
    if (!(logit >= bound)) return;
    const int slot = atomicAdd(&s.kept, 1);
    if (slot < kMaxKept) s.ranks[slot] = rank_of(logit, token);
  });
  __syncthreads();
  return s.kept > kMaxKept ? sort_top_k(logits, vocab, top_k, s) : rank_of(bound, 0xFFFFFFFFu);
}

/// A thread block for each chunk of a row: its sums, its sampled token and its top-k candidates.
__global__ void __launch_bounds__(kThreads, 4)
    sample_chunk_kernel(SampleRequest request, Chunk* chunks, ChunkCandidates* candidates, uint64_t* top_k_ranks) {
  __shared__ Candidate sampled_by[kWarps];
  __shared__ TopKScratch scratch;
  allow_next_kernel();
  wait_for_previous_kernel();
  const int row = blockIdx.y, warp = threadIdx.x / 32, index = row * gridDim.x + blockIdx.x;
  const int top_k = static_cast<int>(request.top_k);
  const ThreadLogits logits(request.logits + static_cast<long long>(row) * request.vocab, request.vocab);
  const Chunk chunk = logits.reduce_chunk(request.temperature == 0 ? 1 : 1 / request.temperature);
  const Candidate best =
      best_in_warp(request.temperature == 0 ? largest_token(logits, request.vocab)
                                            : largest_noisy_token(logits, chunk.two.first, request, row));
  const float bound = top_k > 0 ? bound_top_k_in_warp(logits, top_k) : 0.0f;
  if (threadIdx.x % 32 == 0) sampled_by[warp] = best, scratch.warp_bounds[warp] = bound;
  if (threadIdx.x == 0) scratch.kept = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    chunks[index] = chunk;
    candidates[index].sampled = sampled_by[0];
    for (int w = 1; w < kWarps; ++w) candidates[index].sampled = better(candidates[index].sampled, sampled_by[w]);
  }
  if (top_k == 0) return;
  const uint64_t min_rank = collect_top_k(logits, request.vocab, top_k, scratch);
  if (threadIdx.x == 0) candidates[index].min_rank = min_rank, candidates[index].kept = scratch.kept;
  for (int i = threadIdx.x; i < scratch.kept; i += kThreads)
    top_k_ranks[static_cast<long long>(index) * kMaxKept + i] = scratch.ranks[i];
}

/// One warp merges the chunks of a row and writes its sampled token. Returns the row's normalizer in every lane.
__device__ __forceinline__ RowNormalizer write_sampled_token(const SampleRequest& request, int row, const Chunk* chunks,
                                                             const ChunkCandidates* candidates, int count,
                                                             double inverse_temperature, const SampleResults& results) {
  const int lane = threadIdx.x % 32;
  const RowNormalizer n = merge_chunks(chunks, count, inverse_temperature);
  Candidate best{-INFINITY, NAN, kNoToken};
  for (int c = lane; c < count; c += 32) {
    Candidate candidate = candidates[c].sampled;
    if (candidate.token == kNoToken) continue;
    if (request.temperature != 0)
      candidate.value = static_cast<float>((static_cast<double>(candidate.logit) - n.largest) * inverse_temperature) +
                        gumbel_noise(request, row, candidate.token);
    best = better(best, candidate);
  }
  best = best_in_warp(best);
  if (lane == 0) {
    const bool any = best.token != kNoToken;
    const double logit = any ? best.logit : NAN, logp = log_probability(n, logit, inverse_temperature);
    results.tokens[row] = any ? best.token : 0;
    results.logps[row] = static_cast<float>(logp);
    results.other_logps[row] = static_cast<float>(other_log_probability(n, logit, logp));
    results.entropies[row] = static_cast<float>(n.entropy);
  }
  return n;
}

/// Sorts the top-k candidates of a row's chunks and writes the first top_k. `kept` is 0 before.
__device__ __forceinline__ void write_top_k(const SampleRequest& request, int row, const RowNormalizer& normalizer,
                                            const ChunkCandidates* candidates, const uint64_t* top_k_ranks, int count,
                                            double inverse_temperature, uint64_t* ranks, int& kept,
                                            const SampleResults& results) {
  const int lane = threadIdx.x % 32, top_k = static_cast<int>(request.top_k);
  // A chunk that kept top_k candidates has as many tokens of its min_rank or above: lower ranks are not in the top k.
  uint64_t min_rank = 1;
  for (int c = lane; c < count; c += 32)
    min_rank = max(min_rank, candidates[c].kept >= request.top_k ? candidates[c].min_rank : 1);
  for (int apart = 16; apart > 0; apart /= 2) min_rank = max(min_rank, __shfl_xor_sync(~0u, min_rank, apart));
  for (int c = threadIdx.x / 32; c < count; c += kWarps)
    for (int i = lane; i < candidates[c].kept; i += 32) {
      const uint64_t rank = top_k_ranks[c * kMaxKept + i];
      if (rank >= min_rank) ranks[atomicAdd(&kept, 1)] = rank;
    }
  __syncthreads();
  const int padded = round_up_to_power_of_two(max(kept, top_k));
  for (int i = kept + threadIdx.x; i < padded; i += kThreads) ranks[i] = 0;
  sort_ranks(ranks, padded);
  for (int i = threadIdx.x; i < top_k; i += kThreads) {
    const uint64_t rank = ranks[i];
    results.topk_ids[static_cast<long long>(row) * top_k + i] = token_of(rank);
    results.topk_logps[static_cast<long long>(row) * top_k + i] =
        static_cast<float>(log_probability(normalizer, logit_of(rank), inverse_temperature));
  }
}

/// A thread block for each row: merges its chunks into its sampled token and its top-k tokens.
__global__ void __launch_bounds__(kThreads)
    sample_row_kernel(SampleRequest request, const Chunk* chunks, const ChunkCandidates* candidates,
                      const uint64_t* top_k_ranks, int count, SampleResults results) {
  extern __shared__ uint64_t ranks[];
  __shared__ RowNormalizer normalizer;
  __shared__ int kept;
  allow_next_kernel();
  wait_for_previous_kernel();
  const int row = blockIdx.x;
  const double inverse_temperature = request.temperature == 0 ? 1 : 1 / request.temperature;
  chunks += static_cast<long long>(row) * count;
  candidates += static_cast<long long>(row) * count;
  top_k_ranks += static_cast<long long>(row) * count * kMaxKept;
  if (threadIdx.x == 0) kept = 0;
  if (threadIdx.x < 32) {
    const RowNormalizer n = write_sampled_token(request, row, chunks, candidates, count, inverse_temperature, results);
    if (threadIdx.x == 0) normalizer = n;
  }
  if (request.top_k == 0) return;
  __syncthreads();
  write_top_k(request, row, normalizer, candidates, top_k_ranks, count, inverse_temperature, ranks, kept, results);
}

__global__ void noise_kernel(float* logits, long long vocab, float deviation, unsigned long long seed,
                             const int64_t* rollout_ids, const int64_t* positions) {
  float* row = logits + blockIdx.x * vocab;
  for (long long begin = threadIdx.x * 4; begin < vocab; begin += kThreads * 4) {
    const LogitNoise noise(seed, static_cast<unsigned long long>(rollout_ids[blockIdx.x]),
                           static_cast<unsigned int>(positions[blockIdx.x]), static_cast<unsigned int>(begin / 4));
    for (int i = 0; i < 4 && begin + i < vocab; ++i) row[begin + i] += deviation * noise.of[i];
  }
}

constexpr int kAdvanceThreads = 128;

__global__ void advance_kernel(ActiveSequencePointers batch, NextTokenPointers sampled) {
  wait_for_previous_kernel();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kAdvanceThreads + threadIdx.x;
  if (i < batch.count) advance_row(batch, sampled, i);
}

}  // namespace

int64_t sample_workspace_bytes(int64_t rows, int64_t vocab, int64_t top_k) {
  const int64_t rank_bytes = top_k > 0 ? kMaxKept * sizeof(uint64_t) : 0;
  return rows * num_chunks(vocab) * static_cast<int64_t>(sizeof(Chunk) + sizeof(ChunkCandidates) + rank_bytes);
}

int sample_tokens(const SampleRequest& request, const SampleResults& results, void* workspace, void* stream) {
  if (request.rows == 0) return 0;
  if (request.top_k > kMaxTopK || request.top_k > request.vocab) return static_cast<int>(cudaErrorInvalidValue);
  const int64_t count = num_chunks(request.vocab);
  auto* const chunks = static_cast<Chunk*>(workspace);
  auto* const candidates = reinterpret_cast<ChunkCandidates*>(chunks + request.rows * count);
  auto* const top_k_ranks = reinterpret_cast<uint64_t*>(candidates + request.rows * count);
  const auto rows = static_cast<unsigned int>(request.rows);
  launch(sample_chunk_kernel, dim3(static_cast<unsigned int>(count), rows), kThreads, 0, stream, request, chunks,
         candidates, top_k_ranks);
  size_t bytes = request.top_k == 0 ? 0 : sizeof(uint64_t);
  while (request.top_k > 0 && bytes < count * kMaxKept * sizeof(uint64_t)) bytes *= 2;
  if (bytes > 48 << 10)
    cudaFuncSetAttribute(sample_row_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  launch(sample_row_kernel, dim3(rows), kThreads, bytes, stream, request, chunks, candidates, top_k_ranks,
         static_cast<int>(count), results);
  return static_cast<int>(cudaGetLastError());
}

int add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                    const int64_t* rollout_ids, const int64_t* positions, void* stream) {
  if (rows == 0) return 0;
  noise_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, vocab, static_cast<float>(deviation), seed, rollout_ids, positions);
  return static_cast<int>(cudaGetLastError());
}

int advance_rows(const ActiveSequencePointers& batch, const NextTokenPointers& sampled, void* stream) {
  if (batch.count == 0) return 0;
  const auto blocks = static_cast<unsigned int>((batch.count + kAdvanceThreads - 1) / kAdvanceThreads);
  launch(advance_kernel, dim3(blocks), kAdvanceThreads, 0, stream, batch, sampled);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
