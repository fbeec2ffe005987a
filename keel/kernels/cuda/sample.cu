#include "keel/kernels/cuda/sample.h"
#include "keel/kernels/cuda/two_largest.cuh"

namespace keel::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kFours = 8;                           // groups of four logits that a thread keeps
constexpr int kChunk = kThreads * kFours * 4;       // logits of a row that a block of threads looks at
constexpr int kMostKept = kMostLikeliest * kFours * 4;

/// A logit and its token as one number: the larger logit is the larger number, and of equal ones the smaller token.
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

__device__ Candidate from_lane(const Candidate& mine, int apart) {
  return {__shfl_xor_sync(~0u, mine.value, apart), __shfl_xor_sync(~0u, mine.logit, apart),
          __shfl_xor_sync(~0u, mine.token, apart)};
}

/// What is known of a chunk of a row.
struct Chunk {
  TwoLargest two;
  Candidate drawn;         // its value is measured from the chunk's own largest logit
  double total, weighted;  // as in RowSums, measured from `centre`
  float centre;
};

/// No noise from the word is larger. It is at most -log u, and u is not below half of the next power of two.
__device__ float noise_bound(unsigned int word) { return 0.693148f * static_cast<float>(1 + __clz(word)); }

/// One block of threads for a chunk of a row, whose logits stay in registers.
__global__ void __launch_bounds__(kThreads) look_at_chunk(DrawRequest request, Chunk* chunks, uint64_t* likeliest) {
  __shared__ TwoLargest two_of[kWarps];
  __shared__ double total_of[kWarps], weighted_of[kWarps];
  __shared__ Candidate drawn_of[kWarps];
  __shared__ uint64_t ranks[kMostKept];
  __shared__ int kept;
  const int row = blockIdx.y, warp = threadIdx.x / 32;
  const long long first = static_cast<long long>(blockIdx.x) * kChunk + threadIdx.x * 4;
  const float* const logits = request.logits + static_cast<long long>(row) * request.vocab;
  const bool fours = request.vocab % 4 == 0;
  float z[kFours][4];
  TwoLargest two{-INFINITY, -INFINITY};
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const long long token = first + i * kThreads * 4;
    if (fours && token < request.vocab) {
      const float4 four = *reinterpret_cast<const float4*>(logits + token);
      z[i][0] = four.x, z[i][1] = four.y, z[i][2] = four.z, z[i][3] = four.w;
    } else {
      for (int j = 0; j < 4; ++j) z[i][j] = token + j < request.vocab ? logits[token + j] : -INFINITY;
    }
    for (int j = 0; j < 4; ++j) two = larger_two(two, {z[i][j], -INFINITY});
  }
  for (int apart = 16; apart > 0; apart /= 2)
    two = larger_two(two, {__shfl_xor_sync(~0u, two.first, apart), __shfl_xor_sync(~0u, two.second, apart)});
  if (threadIdx.x % 32 == 0) two_of[warp] = two;
  __syncthreads();
  two = two_of[0];
  for (int w = 1; w < kWarps; ++w) two = larger_two(two, two_of[w]);

  const bool greedy = request.temperature == 0;
  const double inverse_temperature = greedy ? 1 : 1 / request.temperature;
  const auto narrow_inverse = static_cast<float>(inverse_temperature);
  const TemperedExp exp(inverse_temperature);
  // A chunk may have no token that is possible; what is not a number must be seen all the same.
  const float centre = !isinf(two.second) ? two.second : !isinf(two.first) ? two.first : 0.0f;
  double total = 0, weighted = 0;
  Candidate drawn{-INFINITY, -INFINITY, kNoToken};
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const long long token = first + i * kThreads * 4;
    if (token >= request.vocab) continue;
    PhiloxBlock noise{};
    if (!greedy)
      noise = random_block(request.seed, Stream::kSampling, static_cast<unsigned long long>(request.rollout_ids[row]),
                           static_cast<unsigned int>(request.positions[row]), static_cast<unsigned int>(token / 4));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (token + j >= request.vocab) continue;
      const float x = exp.held(z[i][j] - centre), term = exp(x);
      total += term;
      weighted += term * x;
      const float tempered = greedy ? z[i][j] : (z[i][j] - two.first) * narrow_inverse;
      if (!greedy && tempered + noise_bound(noise.word[j]) <= drawn.value) continue;
      drawn = better(drawn, {greedy ? tempered : tempered + gumbel(noise.word[j]), z[i][j], static_cast<int>(token) + j});
    }
  }
  for (int apart = 16; apart > 0; apart /= 2) {
    total += __shfl_xor_sync(~0u, total, apart);
    weighted += __shfl_xor_sync(~0u, weighted, apart);
    drawn = better(drawn, from_lane(drawn, apart));
  }
  if (threadIdx.x % 32 == 0) total_of[warp] = total, weighted_of[warp] = weighted, drawn_of[warp] = drawn;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < kWarps; ++w) {
      total += total_of[w];
      weighted += weighted_of[w];
      drawn = better(drawn, drawn_of[w]);
    }
    chunks[row * gridDim.x + blockIdx.x] = {two, drawn, total, weighted * inverse_temperature, centre};
  }
  if (request.top_k == 0) return;

  // The K-th largest of the threads' largest is no larger than the K-th largest of all, and few are above it.
  uint64_t most = 0;
#pragma unroll
  for (int i = 0; i < kFours; ++i)
    for (int j = 0; j < 4; ++j) {
      const long long token = first + i * kThreads * 4 + j;
      if (token < request.vocab) most = max(most, ranked(z[i][j], static_cast<uint32_t>(token)));
    }
  ranks[threadIdx.x] = most;
  if (threadIdx.x == 0) kept = 0;
  sort_ranks(ranks, kThreads);
  const int top_k = static_cast<int>(request.top_k);
  const uint64_t least = max(ranks[top_k - 1], uint64_t{1});  // 0 is no token
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kFours; ++i)
    for (int j = 0; j < 4; ++j) {
      const long long token = first + i * kThreads * 4 + j;
      if (token >= request.vocab) continue;
      const uint64_t rank = ranked(z[i][j], static_cast<uint32_t>(token));
      if (rank >= least) ranks[atomicAdd(&kept, 1)] = rank;
    }
  __syncthreads();
  const int count = kept, room = max(power_of_two(count), power_of_two(top_k));
  for (int i = count + threadIdx.x; i < room; i += kThreads) ranks[i] = 0;
  sort_ranks(ranks, room);
  uint64_t* const to = likeliest + (static_cast<long long>(row) * gridDim.x + blockIdx.x) * top_k;
  for (int i = threadIdx.x; i < top_k; i += kThreads) to[i] = ranks[i];
}

/// One block of threads for a row: from its chunks to its distribution, its token and its likeliest ones.
__global__ void __launch_bounds__(kThreads)
    put_together(DrawRequest request, const Chunk* chunks, int count, const uint64_t* likeliest, DrawnRows drawn) {
  extern __shared__ uint64_t ranks[];
  __shared__ RowNormalizer normalizer;
  const int row = blockIdx.x;
  const bool greedy = request.temperature == 0;
  const double inverse_temperature = greedy ? 1 : 1 / request.temperature;
  chunks += static_cast<long long>(row) * count;
  if (threadIdx.x < 32) {
    TwoLargest two{-INFINITY, -INFINITY};
    for (int c = threadIdx.x; c < count; c += 32) two = larger_two(two, chunks[c].two);
    for (int apart = 16; apart > 0; apart /= 2)
      two = larger_two(two, {__shfl_xor_sync(~0u, two.first, apart), __shfl_xor_sync(~0u, two.second, apart)});
    // Measured from the row's second largest logit no term can overflow: a chunk's largest logit is not above it, but
    // for the one that is the row's largest, which counts as 1.
    const float centre = isinf(two.second) ? two.first : two.second;
    double total = 0, weighted = 0;
    Candidate best{-INFINITY, NAN, kNoToken};
    for (int c = threadIdx.x; c < count; c += 32) {
      const Chunk chunk = chunks[c];
      // Beside its largest token; a number less itself is 0, or NaN.
      const double rest = isinf(chunk.two.second) ? chunk.total - chunk.total : chunk.total - 1;
      const double moved = isinf(chunk.two.second) ? 0 : (static_cast<double>(chunk.centre) - centre) * inverse_temperature;
      total += std::exp(moved) * rest;
      weighted += std::exp(moved) * (chunk.weighted + rest * moved);
      if (!isinf(chunk.two.first)) {
        const double gap = fmin((static_cast<double>(chunk.two.first) - centre) * inverse_temperature, 0.0);
        total += std::exp(gap);
        weighted += std::exp(gap) * gap;
      }
      if (chunk.drawn.token == kNoToken) continue;
      Candidate candidate = chunk.drawn;
      if (!greedy) {
        const PhiloxBlock noise =
            random_block(request.seed, Stream::kSampling, static_cast<unsigned long long>(request.rollout_ids[row]),
                         static_cast<unsigned int>(request.positions[row]), static_cast<unsigned int>(candidate.token / 4));
        candidate.value =
            static_cast<float>((static_cast<double>(candidate.logit) - two.first) * inverse_temperature) +
            gumbel(noise.word[candidate.token % 4]);
      }
      best = better(best, candidate);
    }
    for (int apart = 16; apart > 0; apart /= 2) {
      total += __shfl_xor_sync(~0u, total, apart);
      weighted += __shfl_xor_sync(~0u, weighted, apart);
      best = better(best, from_lane(best, apart));
    }
    if (threadIdx.x == 0) {
      const RowNormalizer n = normalizer_of({two.first, two.second, total, weighted}, inverse_temperature);
      normalizer = n;
      const bool found = best.token != kNoToken;
      const double logit = found ? best.logit : NAN, logp = log_probability(n, logit, inverse_temperature);
      drawn.tokens[row] = found ? best.token : 0;
      drawn.logps[row] = static_cast<float>(logp);
      drawn.other_logps[row] = static_cast<float>(other_log_probability(n, logit, logp));
      drawn.entropies[row] = static_cast<float>(n.entropy);
    }
  }
  if (request.top_k == 0) return;
  const int top_k = static_cast<int>(request.top_k), there = count * top_k, room = power_of_two(there);
  for (int i = threadIdx.x; i < room; i += kThreads)
    ranks[i] = i < there ? likeliest[static_cast<long long>(row) * there + i] : 0;
  sort_ranks(ranks, room);
  for (int i = threadIdx.x; i < top_k; i += kThreads) {
    const uint64_t rank = ranks[i];
    drawn.topk_ids[static_cast<long long>(row) * top_k + i] = token_of(rank);
    drawn.topk_logps[static_cast<long long>(row) * top_k + i] =
        static_cast<float>(log_probability(normalizer, logit_of(rank), inverse_temperature));
  }
}

int64_t chunks_of(int64_t vocab) { return (vocab + kChunk - 1) / kChunk; }

}  // namespace

int64_t draw_workspace_bytes(int64_t rows, int64_t vocab, int64_t top_k) {
  return rows * chunks_of(vocab) * static_cast<int64_t>(sizeof(Chunk) + top_k * sizeof(uint64_t));
}

int draw_tokens(const DrawRequest& request, const DrawnRows& drawn, void* workspace, void* stream) {
  if (request.rows == 0) return 0;
  if (request.top_k > kMostLikeliest || request.top_k > request.vocab) return static_cast<int>(cudaErrorInvalidValue);
  const int64_t count = chunks_of(request.vocab);
  auto* const chunks = static_cast<Chunk*>(workspace);
  auto* const likeliest = reinterpret_cast<uint64_t*>(chunks + request.rows * count);
  const auto rows = static_cast<unsigned int>(request.rows);
  const auto queue = static_cast<cudaStream_t>(stream);
  look_at_chunk<<<dim3(static_cast<unsigned int>(count), rows), kThreads, 0, queue>>>(request, chunks, likeliest);
  size_t bytes = request.top_k == 0 ? 0 : sizeof(uint64_t);
  while (bytes < count * request.top_k * sizeof(uint64_t)) bytes *= 2;
  if (bytes > 48 << 10)
    cudaFuncSetAttribute(put_together, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  put_together<<<rows, kThreads, bytes, queue>>>(request, chunks, static_cast<int>(count), likeliest, drawn);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
