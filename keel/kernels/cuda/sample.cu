#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/row_chunks.cuh"
#include "keel/kernels/cuda/sample.h"

namespace keel::cuda {
namespace {

/// A logit and its token as one number: the larger logit is the larger number, and of equal ones the smaller token.
/// None is 0.
__device__ uint64_t ranked(float logit, uint32_t token) {
  const uint32_t bits = __float_as_uint(logit), ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | (0xFFFFFFFFu - token);
}
__device__ uint32_t token_of(uint64_t rank) { return 0xFFFFFFFFu - static_cast<uint32_t>(rank); }
__device__ float logit_of(uint64_t rank) {
  const auto ordered = static_cast<uint32_t>(rank >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7FFFFFFFu : ~ordered);
}

/// The largest first; `count` is a power of two.
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

/// The number that `larger` of a warp's lanes exceed.
__device__ float number_in_warp(float number, int larger) {
  const int lane = threadIdx.x % 32;
  for (int size = 2; size <= 32; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
      const float other = __shfl_xor_sync(~0u, number, apart);
      const bool keeps_larger = ((lane & size) == 0) == ((lane & apart) == 0);
      number = keeps_larger ? fmaxf(number, other) : fminf(number, other);
    }
  return __shfl_sync(~0u, number, larger);
}

__device__ int power_of_two(int least) { return least <= 1 ? 1 : 1 << (32 - __clz(least - 1)); }

constexpr int kNoToken = 0x7FFFFFFF;

struct Candidate {
  float value, logit;
  int token;
};

/// The better of two; the smaller token among equals, so that the result does not depend on the order of the threads.
__device__ Candidate better(const Candidate& a, const Candidate& b) {
  return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

__device__ Candidate best_of_warp(Candidate best) {
  for (int apart = 16; apart > 0; apart /= 2)
    best = better(best, {__shfl_xor_sync(~0u, best.value, apart), __shfl_xor_sync(~0u, best.logit, apart),
                         __shfl_xor_sync(~0u, best.token, apart)});
  return best;
}

constexpr int kMostKept = 48 * kFours;  // likely tokens of a chunk that are handed on
constexpr int kMostSorted = static_cast<int>(kMaxTopK) * kFours * 4;

/// What is known of a chunk beside its distribution.
struct ChunkTokens {
  Candidate drawn;  // its value is measured from the chunk's own largest logit
  uint64_t least;   // K tokens of the chunk have this rank or a larger one
  int kept;         // and this many are handed on
};

__device__ PhiloxBlock noise_of(const DrawRequest& request, int row, long long token) {
  return random_block(request.seed, Stream::kSampling, static_cast<unsigned long long>(request.rollout_ids[row]),
                      static_cast<unsigned int>(request.positions[row]), static_cast<unsigned int>(token / 4));
}

__device__ float noise_on(const DrawRequest& request, int row, long long token) {
  return gumbel(noise_of(request, row, token).word[token % 4]);
}

constexpr float kLog2 = 0.6931472f;

/// Without the care for subnormal numbers.
__device__ float quick_log2(float number) {
  float log2;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log2) : "f"(number));
  return log2;
}

/// The best of the block's tokens that this thread has.
__device__ Candidate draw_from(const ThreadLogits& logits, float largest, const DrawRequest& request, int row) {
  Candidate drawn{-INFINITY, -INFINITY, kNoToken};
  if (request.temperature == 0) {
#pragma unroll
    for (int i = 0; i < kFours; ++i)
      for (int j = 0; j < 4; ++j) {
        const long long token = ThreadLogits::first_token(i) + j;
        if (token < request.vocab) drawn = better(drawn, {logits.z[i][j], logits.z[i][j], static_cast<int>(token)});
      }
    return drawn;
  }
  // First what each token can reach, by one quick logarithm; then those few that can still win. The noise is at most
  // -log u, for u up to 1/2 at least that less 0.33, and the quick logarithm is off by far less than 0.01.
  const auto inverse_temperature = static_cast<float>(1 / request.temperature);
  __shared__ float bound_of[kWarps];
  float bound = -INFINITY, reach[kFours][4];
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const PhiloxBlock noise = noise_of(request, row, ThreadLogits::first_token(i));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float tempered = fmaf(logits.z[i][j] - largest, inverse_temperature, 32 * kLog2);
      reach[i][j] = fmaf(quick_log2(static_cast<float>(noise.word[j]) + 0.5f), -kLog2, tempered);
      if (noise.word[j] < 0x80000000u) bound = fmaxf(bound, reach[i][j]);
    }
  }
  for (int apart = 16; apart > 0; apart /= 2) bound = fmaxf(bound, __shfl_xor_sync(~0u, bound, apart));
  if (threadIdx.x % 32 == 0) bound_of[threadIdx.x / 32] = bound;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) bound = fmaxf(bound, bound_of[w]);
  bound -= 0.35f;
  uint32_t worth = 0;
#pragma unroll
  for (int i = 0; i < kFours; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) worth |= reach[i][j] >= bound ? 1u << (4 * i + j) : 0u;
  for (; worth != 0; worth &= worth - 1) {
    const int place = __ffs(static_cast<int>(worth)) - 1;
    const long long token = ThreadLogits::first_token(place / 4) + place % 4;
    if (token >= request.vocab) continue;
    const float logit = request.logits[row * request.vocab + token];
    const float tempered = (logit - largest) * inverse_temperature;
    drawn = better(drawn, {tempered + noise_on(request, row, token), logit, static_cast<int>(token)});
  }
  return drawn;
}

/// Calls body(logit, token) for each of this thread's tokens.
template <class Body>
__device__ void for_tokens(const ThreadLogits& logits, long long vocab, const Body& body) {
#pragma unroll
  for (int i = 0; i < kFours; ++i)
    for (int j = 0; j < 4; ++j) {
      const long long token = ThreadLogits::first_token(i) + j;
      if (token < vocab) body(logits.z[i][j], static_cast<uint32_t>(token));
    }
}

/// One block of threads for a chunk of a row.
__global__ void __launch_bounds__(kThreads, 4)
    look_at_chunk(DrawRequest request, Chunk* chunks, ChunkTokens* found, uint64_t* likely) {
  __shared__ Candidate drawn_of[kWarps];
  __shared__ uint64_t ranks[kMostSorted];
  __shared__ float least_of[kWarps];
  __shared__ int kept;
  start_the_next();
  wait_for_what_was_queued();
  const int row = blockIdx.y, warp = threadIdx.x / 32, place = row * gridDim.x + blockIdx.x;
  const ThreadLogits logits(request.logits + static_cast<long long>(row) * request.vocab, request.vocab);
  const Chunk chunk = logits.chunk(request.temperature == 0 ? 1 : 1 / request.temperature);
  const Candidate drawn = best_of_warp(draw_from(logits, chunk.two.first, request, row));
  if (threadIdx.x % 32 == 0) drawn_of[warp] = drawn;
  if (threadIdx.x == 0) kept = 0;

  // If each warp has K / 8 threads whose largest logit is at least x, then K tokens are, and not many more.
  const int top_k = static_cast<int>(request.top_k);
  if (top_k > 0) {
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < kFours; ++i)
      for (int j = 0; j < 4; ++j) most = fmaxf(most, logits.z[i][j]);
    const float least_of_warp = number_in_warp(most, (top_k + kWarps - 1) / kWarps - 1);
    if (threadIdx.x % 32 == 0) least_of[warp] = least_of_warp;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    chunks[place] = chunk;
    found[place].drawn = drawn_of[0];
    for (int w = 1; w < kWarps; ++w) found[place].drawn = better(found[place].drawn, drawn_of[w]);
  }
  if (top_k == 0) return;
  float least_logit = least_of[0];
  for (int w = 1; w < kWarps; ++w) least_logit = fminf(least_logit, least_of[w]);
  for_tokens(logits, request.vocab, [&](float logit, uint32_t token) {
    if (!(logit >= least_logit)) return;
    const int at = atomicAdd(&kept, 1);
    if (at < kMostKept) ranks[at] = ranked(logit, token);
  });
  __syncthreads();
  uint64_t least = ranked(least_logit, 0xFFFFFFFFu);
  if (kept > kMostKept) {
    // Unevenly spread, or many alike. Fewer than K threads have a token above the K-th largest of all threads' largest.
    uint64_t most = 0;
    for_tokens(logits, request.vocab, [&](float logit, uint32_t token) { most = max(most, ranked(logit, token)); });
    __syncthreads();
    ranks[threadIdx.x] = most;
    if (threadIdx.x == 0) kept = 0;
    sort_ranks(ranks, kThreads);
    least = max(ranks[top_k - 1], uint64_t{1});
    __syncthreads();
    for_tokens(logits, request.vocab, [&](float logit, uint32_t token) {
      if (const uint64_t rank = ranked(logit, token); rank >= least) ranks[atomicAdd(&kept, 1)] = rank;
    });
    __syncthreads();
    const int there = kept, room = power_of_two(max(there, top_k));
    for (int i = there + threadIdx.x; i < room; i += kThreads) ranks[i] = 0;
    sort_ranks(ranks, room);
    if (threadIdx.x == 0) kept = min(there, top_k);
    __syncthreads();
  }
  if (threadIdx.x == 0) found[place].least = least, found[place].kept = kept;
  for (int i = threadIdx.x; i < kept; i += kThreads) likely[static_cast<long long>(place) * kMostKept + i] = ranks[i];
}

/// One block of threads for a row: from its chunks to its token and its likeliest ones.
__global__ void __launch_bounds__(kThreads) choose(DrawRequest request, const Chunk* chunks, const ChunkTokens* found,
                                                   const uint64_t* likely, int count, DrawResults results) {
  extern __shared__ uint64_t ranks[];
  __shared__ RowNormalizer normalizer;
  __shared__ int kept;
  start_the_next();
  wait_for_what_was_queued();
  const int row = blockIdx.x, lane = threadIdx.x;
  const bool greedy = request.temperature == 0;
  const double inverse_temperature = greedy ? 1 : 1 / request.temperature;
  chunks += static_cast<long long>(row) * count;
  found += static_cast<long long>(row) * count;
  likely += static_cast<long long>(row) * count * kMostKept;
  if (threadIdx.x == 0) kept = 0;
  if (threadIdx.x < 32) {
    const RowNormalizer n = put_together(chunks, count, inverse_temperature);
    Candidate best{-INFINITY, NAN, kNoToken};
    for (int c = lane; c < count; c += 32) {
      Candidate candidate = found[c].drawn;
      if (candidate.token == kNoToken) continue;
      if (!greedy)
        candidate.value = static_cast<float>((static_cast<double>(candidate.logit) - n.largest) * inverse_temperature) +
                          noise_on(request, row, candidate.token);
      best = better(best, candidate);
    }
    best = best_of_warp(best);
    if (lane == 0) {
      normalizer = n;
      const bool any = best.token != kNoToken;
      const double logit = any ? best.logit : NAN, logp = log_probability(n, logit, inverse_temperature);
      drawn.tokens[row] = any ? best.token : 0;
      drawn.logps[row] = static_cast<float>(logp);
      drawn.other_logps[row] = static_cast<float>(other_log_probability(n, logit, logp));
      drawn.entropies[row] = static_cast<float>(n.entropy);
    }
  }
  if (request.top_k == 0) return;
  __syncthreads();
  // Each chunk alone has K tokens at or above its least one.
  uint64_t least = 1;
  for (int c = lane % 32; c < count; c += 32) least = max(least, found[c].kept >= request.top_k ? found[c].least : 1);
  for (int apart = 16; apart > 0; apart /= 2) least = max(least, __shfl_xor_sync(~0u, least, apart));
  for (int c = threadIdx.x / 32; c < count; c += kWarps)
    for (int i = threadIdx.x % 32; i < found[c].kept; i += 32) {
      const uint64_t rank = likely[c * kMostKept + i];
      if (rank >= least) ranks[atomicAdd(&kept, 1)] = rank;
    }
  __syncthreads();
  const int top_k = static_cast<int>(request.top_k), room = power_of_two(max(kept, top_k));
  for (int i = kept + threadIdx.x; i < room; i += kThreads) ranks[i] = 0;
  sort_ranks(ranks, room);
  for (int i = threadIdx.x; i < top_k; i += kThreads) {
    const uint64_t rank = ranks[i];
    drawn.topk_ids[static_cast<long long>(row) * top_k + i] = token_of(rank);
    drawn.topk_logps[static_cast<long long>(row) * top_k + i] =
        static_cast<float>(log_probability(normalizer, logit_of(rank), inverse_temperature));
  }
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
  wait_for_what_was_queued();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kAdvanceThreads + threadIdx.x;
  if (i < batch.count) advance_row(batch, sampled, i);
}

}  // namespace

int64_t draw_workspace_bytes(int64_t rows, int64_t vocab, int64_t top_k) {
  const int64_t likely = top_k > 0 ? kMostKept * sizeof(uint64_t) : 0;
  return rows * chunks_of(vocab) * static_cast<int64_t>(sizeof(Chunk) + sizeof(ChunkTokens) + likely);
}

int draw_tokens(const DrawRequest& request, const DrawResults& results, void* workspace, void* stream) {
  if (request.rows == 0) return 0;
  if (request.top_k > kMaxTopK || request.top_k > request.vocab) return static_cast<int>(cudaErrorInvalidValue);
  const int64_t count = chunks_of(request.vocab);
  auto* const chunks = static_cast<Chunk*>(workspace);
  auto* const found = reinterpret_cast<ChunkTokens*>(chunks + request.rows * count);
  auto* const likely = reinterpret_cast<uint64_t*>(found + request.rows * count);
  const auto rows = static_cast<unsigned int>(request.rows);
  launch(look_at_chunk, dim3(static_cast<unsigned int>(count), rows), kThreads, 0, stream, request, chunks, found,
         likely);
  size_t bytes = request.top_k == 0 ? 0 : sizeof(uint64_t);
  while (request.top_k > 0 && bytes < count * kMostKept * sizeof(uint64_t)) bytes *= 2;
  if (bytes > 48 << 10)
    cudaFuncSetAttribute(choose, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  launch(choose, dim3(rows), kThreads, bytes, stream, request, chunks, found, likely, static_cast<int>(count), drawn);
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
