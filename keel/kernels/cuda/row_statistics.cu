#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/cuda/row_chunks.cuh"
#include "keel/kernels/cuda/row_statistics.h"

namespace keel::cuda {
namespace {

/// Reduces `value` over the thread block by `fold`. Every thread gets the result. `shared` has kThreads entries.
template <class T, class Fold>
__device__ T reduce(T value, T* shared, Fold fold) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = fold(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const T result = shared[0];
  __syncthreads();
  return result;
}

__device__ double plus(double a, double b) { return a + b; }

/// One thread block per chunk of a row.
__global__ void __launch_bounds__(kThreads)
    chunk_kernel(const float* logits, long long vocab, double inverse_temperature, Chunk* chunks) {
  wait_for_previous_kernel();
  const ThreadLogits thread_logits(logits + blockIdx.y * vocab, vocab);
  const Chunk chunk = thread_logits.reduce_chunk(inverse_temperature);
  if (threadIdx.x == 0) chunks[blockIdx.y * gridDim.x + blockIdx.x] = chunk;
}

/// One warp per row.
__global__ void normalize_kernel(const Chunk* chunks, int count, long long rows, double inverse_temperature,
                                 RowNormalizer* normalizers) {
  wait_for_previous_kernel();
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const RowNormalizer n = merge_chunks(chunks + row * count, count, inverse_temperature);
  if (threadIdx.x % 32 == 0) normalizers[row] = n;
}

__global__ void log_probability_kernel(const float* logits, const RowNormalizer* normalizers, long long rows,
                                       long long vocab, double inverse_temperature, const int64_t* ids, long long count,
                                       float* logps, float* other_logps) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= rows * count) return;
  const RowNormalizer n = normalizers[i / count];
  const bool known = ids[i] >= 0 && ids[i] < vocab;
  const double logit = known ? logits[i / count * vocab + ids[i]] : NAN;
  const double logp = log_probability(n, logit, inverse_temperature);
  logps[i] = static_cast<float>(logp);
  if (other_logps) other_logps[i] = static_cast<float>(other_log_probability(n, logit, logp));
}

__global__ void divergence_kernel(const float* logits, const RowNormalizer* normalizers, const float* behavior_logits,
                                  const RowNormalizer* behavior_normalizers, long long vocab,
                                  double inverse_temperature, float* total_variations, float* kls) {
  __shared__ double sums[kThreads];
  const float *row = logits + blockIdx.x * vocab, *behavior_row = behavior_logits + blockIdx.x * vocab;
  const TokenDivergences terms(normalizers[blockIdx.x], behavior_normalizers[blockIdx.x], inverse_temperature);
  double distance = 0, kl = 0;
  const auto add = [&](float logit, float behavior_logit) {
    distance += terms.distance(logit, behavior_logit);
    kl += terms.kl(logit, behavior_logit);
  };
  const long long fours = vocab % 4 == 0 ? vocab / 4 : 0;
#pragma unroll 2
  for (long long i = threadIdx.x; i < fours; i += kThreads) {
    const float4 pi = reinterpret_cast<const float4*>(row)[i], mu = reinterpret_cast<const float4*>(behavior_row)[i];
    add(pi.x, mu.x), add(pi.y, mu.y), add(pi.z, mu.z), add(pi.w, mu.w);
  }
  for (long long token = 4 * fours + threadIdx.x; token < vocab; token += kThreads)
    add(row[token], behavior_row[token]);
  distance = reduce(distance, sums, plus);
  kl = reduce(kl, sums, plus);
  if (threadIdx.x == 0) {
    total_variations[blockIdx.x] = static_cast<float>(distance / 2);
    kls[blockIdx.x] = terms.row_kl(kl);
  }
}

__global__ void __launch_bounds__(kThreads)
    mass_kernel(const float* logits, const RowNormalizer* normalizers, long long vocab, double inverse_temperature,
                ScoreMasses centering, float* totals) {
  __shared__ double sums[kThreads];
  const float *row = logits + blockIdx.x * vocab, *behavior_row = centering.behavior_logits + blockIdx.x * vocab;
  const WeightedBehavior mass(normalizers[blockIdx.x], centering.behavior_normalizers[blockIdx.x],
                              weight_for(centering.weights, centering.advantages[blockIdx.x]), inverse_temperature);
  double total = 0;
  const long long fours = vocab % 4 == 0 ? vocab / 4 : 0;
#pragma unroll 2
  for (long long i = threadIdx.x; i < fours; i += kThreads) {
    const float4 pi = reinterpret_cast<const float4*>(row)[i], mu = reinterpret_cast<const float4*>(behavior_row)[i];
    total += mass(pi.x, mu.x) + mass(pi.y, mu.y) + mass(pi.z, mu.z) + mass(pi.w, mu.w);
  }
  for (long long token = 4 * fours + threadIdx.x; token < vocab; token += kThreads)
    total += mass(row[token], behavior_row[token]);
  total = reduce(total, sums, plus);
  if (threadIdx.x == 0) totals[blockIdx.x] = static_cast<float>(total);
}

constexpr int kGradientThreads = 1024;  // large blocks: fewer rows in flight, so a shorter tail of the launch
constexpr int kAhead = 2;               // groups of four logits that a thread prefetches

/// One thread block per row. Gradients in bf16 or fp16 start where the row's logits did: an iteration overwrites only
/// logits that all threads have read in this iteration or before. kExact: with the exact form of score centering. In
/// the top-K form each thread replaces the gradient of one listed token at the end.
template <class T, bool kExact>
__global__ void __launch_bounds__(kGradientThreads)
    gradient_kernel(float* logits, const RowNormalizer* normalizers, long long vocab, double inverse_temperature,
                    LogitLoss loss) {
  float* const row = logits + blockIdx.x * vocab;
  T* const to = reinterpret_cast<T*>(row);
  const RowNormalizer n = normalizers[blockIdx.x];
  const LogitGradient gradient(n, loss, blockIdx.x, inverse_temperature);
  const int64_t target = loss.targets[blockIdx.x];
  const bool aligned = vocab % 4 == 0;
  const ScoreMasses& centering = loss.centering;
  const float* const behavior_row = kExact ? centering.behavior_logits + blockIdx.x * vocab : nullptr;
  const WeightedBehavior mass(n, kExact ? centering.behavior_normalizers[blockIdx.x] : n,
                              weight_for(centering.weights, kExact ? centering.advantages[blockIdx.x] : 0),
                              inverse_temperature);
  const long long listed = blockIdx.x * centering.count + threadIdx.x;
  const int64_t listed_id = threadIdx.x < centering.count ? centering.ids[listed] : -1;
  const bool is_listed = listed_id >= 0 && listed_id < vocab;
  const float listed_logit = is_listed ? row[listed_id] : 0;
  const auto token_of = [&](long long begin, int i) { return begin + 4 * (i * kGradientThreads + threadIdx.x); };
  const auto load_from = [&](const float* from, long long token) {
    if (aligned && token < vocab) return *reinterpret_cast<const float4*>(from + token);
    const auto one = [&](int j) { return token + j < vocab ? from[token + j] : 0.0f; };
    return make_float4(one(0), one(1), one(2), one(3));
  };
  const auto load = [&](long long token) { return load_from(row, token); };
  float4 next[kAhead];
  for (int i = 0; i < kAhead; ++i) next[i] = load(token_of(0, i));
  for (long long begin = 0; begin < vocab; begin += 4 * kAhead * kGradientThreads) {
    float4 fours[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      fours[i] = next[i], next[i] = load(token_of(begin + 4 * kAhead * kGradientThreads, i));
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const long long token = token_of(begin, i);
      const float z[4] = {fours[i].x, fours[i].y, fours[i].z, fours[i].w};
      Vector<T, 4> result;
      float masses[4] = {};
      if constexpr (kExact) {
        const float4 mu = load_from(behavior_row, token);
        masses[0] = mass(z[0], mu.x), masses[1] = mass(z[1], mu.y), masses[2] = mass(z[2], mu.z),
        masses[3] = mass(z[3], mu.w);
      }
      for (int j = 0; j < 4; ++j) {
        float value = kExact ? gradient.at_other(z[j], masses[j]) : gradient.at_other(z[j]);
        if (token + j == target)
          value = gradient.at_target(n, z[j], inverse_temperature, kExact ? masses[j] : gradient.unlisted_mass(z[j]));
        result.of[j] = from_float<T>(value);
      }
      if (aligned && token < vocab)
        *reinterpret_cast<Vector<T, 4>*>(to + token) = result;
      else
        for (int j = 0; j < 4; ++j)
          if (token + j < vocab) to[token + j] = result.of[j];
    }
  }
  if (centering.count == 0) return;
  __syncthreads();
  if (!is_listed) return;
  const float m = centering.masses[listed];
  to[listed_id] = from_float<T>(listed_id == target ? gradient.at_target(n, listed_logit, inverse_temperature, m)
                                                    : gradient.at_other(listed_logit, m));
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int64_t normalize_workspace_bytes(int64_t rows, int64_t vocab) {
  return rows * num_chunks(vocab) * static_cast<int64_t>(sizeof(Chunk));
}

int normalize_rows(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature,
                   RowNormalizer* normalizers, void* workspace, void* stream) {
  constexpr int64_t kMaxRows = 65535;  // per launch
  const int64_t count = num_chunks(vocab);
  auto* const chunks = static_cast<Chunk*>(workspace);
  for (int64_t begin = 0; begin < rows; begin += kMaxRows) {
    const int64_t launch_rows = rows - begin < kMaxRows ? rows - begin : kMaxRows;
    launch(chunk_kernel, dim3(static_cast<unsigned int>(count), static_cast<unsigned int>(launch_rows)), kThreads, 0,
           stream, logits + begin * vocab, vocab, inverse_temperature, chunks + begin * count);
  }
  if (rows > 0)
    launch(normalize_kernel, dim3(static_cast<unsigned int>((rows + kWarps - 1) / kWarps)), kThreads, 0, stream, chunks,
           static_cast<int>(count), rows, inverse_temperature, normalizers);
  return static_cast<int>(cudaGetLastError());
}

int token_log_probabilities(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                            double inverse_temperature, const int64_t* ids, int64_t count, float* logps,
                            float* other_logps, void* stream) {
  if (rows * count == 0) return 0;
  const auto blocks = static_cast<unsigned int>((rows * count + kThreads - 1) / kThreads);
  log_probability_kernel<<<blocks, kThreads, 0, stream_of(stream)>>>(
      logits, normalizers, rows, vocab, inverse_temperature, ids, count, logps, other_logps);
  return static_cast<int>(cudaGetLastError());
}

int row_divergences(const float* logits, const RowNormalizer* normalizers, const float* behavior_logits,
                    const RowNormalizer* behavior_normalizers, int64_t rows, int64_t vocab, double inverse_temperature,
                    float* total_variations, float* kls, void* stream) {
  if (rows == 0) return 0;
  divergence_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream_of(stream)>>>(
      logits, normalizers, behavior_logits, behavior_normalizers, vocab, inverse_temperature, total_variations, kls);
  return static_cast<int>(cudaGetLastError());
}

int weighted_masses(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                    double inverse_temperature, const ScoreMasses& centering, float* totals, void* stream) {
  if (rows == 0) return 0;
  mass_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, stream_of(stream)>>>(
      logits, normalizers, vocab, inverse_temperature, centering, totals);
  return static_cast<int>(cudaGetLastError());
}

int logits_to_gradients(float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                        double inverse_temperature, const LogitLoss& loss, FloatType type, void* stream) {
  static_assert(kMaxListed == kGradientThreads);
  if (rows == 0) return 0;
  if (loss.centering.count > kMaxListed) return static_cast<int>(cudaErrorInvalidValue);
  for_type(type, [&]<class T>(T*) {
    const bool exact = loss.centering.behavior_logits != nullptr;
    const auto kernel = exact ? gradient_kernel<T, true> : gradient_kernel<T, false>;
    kernel<<<static_cast<unsigned int>(rows), kGradientThreads, 0, stream_of(stream)>>>(logits, normalizers, vocab,
                                                                                        inverse_temperature, loss);
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
