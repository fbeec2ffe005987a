#include "keel/kernels/cuda/block_attention.h"
#include "keel/kernels/cuda/float_types.cuh"

namespace keel::cuda {
namespace {

template <class T>
__global__ void store_kernel(T* keys, T* values, int kv_heads, int width, const int32_t* tables, const BlockRow* rows,
                             const T* key, const T* value) {
  const BlockRow row = rows[blockIdx.x];
  const bool own = row.own_keys > 0;
  const int32_t* const table = tables + (own ? row.own_table : row.prompt_table);
  const int place = (own ? row.own_keys : row.prompt_keys) - 1, token = place % kBlockTokens;
  const long long block = table[place / kBlockTokens];
  for (int i = threadIdx.x; i < kv_heads * width; i += blockDim.x) {
    const int head = i / width, d = i % width;
    const long long from = static_cast<long long>(blockIdx.x) * kv_heads * width + i;
    const long long begin = (block * kv_heads + head) * width * kBlockTokens;
    keys[begin + d * kBlockTokens + token] = key[from];
    values[begin + token * width + d] = value[from];
  }
}

constexpr int kWarps = 8, kLanes = 32;
constexpr int kMostDimensions = 256;

struct Shape {
  int kv_heads, heads, width;
};

/// One block of threads for a row, a head of keys and up to G query heads that share it. A warp takes 32 keys at a
/// time, a lane one of them for the scores and then `D` dimensions for the values, with a softmax that goes along: what
/// was summed before shrinks when a larger score turns up. The warps' results are put together at the end.
template <class T, int G, int D>
__global__ void __launch_bounds__(kWarps* kLanes)
    attend_kernel(const T* keys, const T* values, Shape shape, BlockRule rule, const int32_t* tables,
                  const BlockRow* rows, const T* query, T* out) {
  extern __shared__ float shared[];
  const int width = shape.width, lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int heads_per_key = shape.heads / shape.kv_heads, parts = (heads_per_key + G - 1) / G;
  const int kv_head = blockIdx.y / parts, first_head = kv_head * heads_per_key + blockIdx.y % parts * G;
  const int some = min(G, heads_per_key - static_cast<int>(blockIdx.y) % parts * G);
  float* const question = shared;                                  // [width][G]
  float* const weight = question + width * G + warp * kLanes * G;  // [32][G], of this warp
  long long* const place =
      reinterpret_cast<long long*>(question + width * G + kWarps * kLanes * G) + warp * kLanes;  // of values, likewise
  const BlockRow row = rows[blockIdx.x];
  const T* const asked = query + (static_cast<long long>(blockIdx.x) * shape.heads + first_head) * width;
  for (int i = threadIdx.x; i < width * G; i += kWarps * kLanes) {
    const int head = i % G, d = i / G;
    question[i] = head < some ? to_float(asked[head * width + d]) * rule.scale : 0.0f;
  }
  __syncthreads();

  const int count = row.prompt_keys + row.own_keys;
  const int first = rule.window > 0 && count > rule.window ? count - static_cast<int>(rule.window) : 0;
  float sum[G][D] = {}, total[G] = {}, largest[G];
  for (int g = 0; g < G; ++g) largest[g] = -INFINITY;
  for (int begin = first + warp * kLanes; begin < count; begin += kWarps * kLanes) {
    const int key = begin + lane;
    float score[G];
    for (int g = 0; g < G; ++g) score[g] = 0;
    if (key < count) {
      const bool own = key >= row.prompt_keys;
      const int at = own ? key - row.prompt_keys : key;
      const long long block = tables[(own ? row.own_table : row.prompt_table) + at / kBlockTokens];
      const long long start = (block * shape.kv_heads + kv_head) * width * kBlockTokens;
      place[lane] = start + static_cast<long long>(at % kBlockTokens) * width;
      const T* const k = keys + start + at % kBlockTokens;
#pragma unroll 8
      for (int d = 0; d < width; ++d) {
        const float x = to_float(k[d * kBlockTokens]);
        for (int g = 0; g < G; ++g) score[g] += x * question[d * G + g];
      }
    }
    for (int g = 0; g < G; ++g) {
      if (rule.softcap > 0) score[g] = tanhf(score[g] / rule.softcap) * rule.softcap;
      if (key >= count) score[g] = -INFINITY;
      float most = score[g];
      for (int half = kLanes / 2; half > 0; half /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, half));
      most = fmaxf(most, largest[g]);
      const float shrink = expf(largest[g] - most), p = expf(score[g] - most);
      largest[g] = most;
      total[g] = total[g] * shrink + p;  // this lane's keys
      for (int d = 0; d < D; ++d) sum[g][d] *= shrink;
      weight[lane * G + g] = p;
    }
    __syncwarp();
    const int there = min(kLanes, count - begin);
#pragma unroll 4
    for (int i = 0; i < there; ++i) {
      const T* const v = values + place[i] + lane * D;
      for (int d = 0; d < D; ++d) {
        const float x = lane * D + d < width ? to_float(v[d]) : 0.0f;
        for (int g = 0; g < G; ++g) sum[g][d] += weight[i * G + g] * x;
      }
    }
    __syncwarp();
  }

  // [warps][G] largest and total, [warps][G][width] sums: in the room of the question and the weights.
  __syncthreads();
  float* const most_of = shared;
  float* const total_of = most_of + kWarps * G;
  float* const sums_of = total_of + kWarps * G;
  for (int g = 0; g < G; ++g) {
    for (int half = kLanes / 2; half > 0; half /= 2) total[g] += __shfl_xor_sync(~0u, total[g], half);
    if (lane == 0) most_of[warp * G + g] = largest[g], total_of[warp * G + g] = total[g];
    for (int d = 0; d < D; ++d)
      if (lane * D + d < width) sums_of[(warp * G + g) * width + lane * D + d] = sum[g][d];
  }
  __syncthreads();
  T* const to = out + (static_cast<long long>(blockIdx.x) * shape.heads + first_head) * width;
  for (int i = threadIdx.x; i < some * width; i += kWarps * kLanes) {
    const int g = i / width, d = i % width;
    float most = -INFINITY, above = 0, below = 0;
    for (int w = 0; w < kWarps; ++w) most = fmaxf(most, most_of[w * G + g]);
    for (int w = 0; w < kWarps; ++w) {
      const float shrink = expf(most_of[w * G + g] - most);
      above += sums_of[(w * G + g) * width + d] * shrink;
      below += total_of[w * G + g] * shrink;
    }
    to[i] = from_float<T>(above / below);
  }
}

template <class T, int G, int D>
void attend(const BlockLayer& layer, const BlockRule& rule, const int32_t* tables, const BlockRow* rows, int64_t count,
            const void* query, int64_t heads, void* out, void* stream) {
  const Shape shape{static_cast<int>(layer.kv_heads), static_cast<int>(heads), static_cast<int>(layer.width)};
  const int64_t heads_per_key = heads / layer.kv_heads;
  const dim3 grid(static_cast<unsigned int>(count),
                  static_cast<unsigned int>(layer.kv_heads * ((heads_per_key + G - 1) / G)));
  const size_t at_work = (layer.width * G + kWarps * kLanes * G) * sizeof(float) + kWarps * kLanes * sizeof(long long);
  const size_t at_end = (kWarps * G * (2 + layer.width)) * sizeof(float);
  const size_t bytes = at_work > at_end ? at_work : at_end;
  if (bytes > 48 << 10)
    cudaFuncSetAttribute(attend_kernel<T, G, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  attend_kernel<T, G, D><<<grid, kWarps * kLanes, bytes, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(layer.keys), static_cast<const T*>(layer.values), shape, rule, tables, rows,
      static_cast<const T*>(query), static_cast<T*>(out));
}

}  // namespace

int store_rows(const BlockLayer& layer, const int32_t* tables, const BlockRow* rows, int64_t count, const void* key,
               const void* value, void* stream) {
  if (count == 0) return 0;
  for_type(layer.type, [&]<class T>(T*) {
    store_kernel<<<static_cast<unsigned int>(count), 128, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<T*>(layer.keys), static_cast<T*>(layer.values), static_cast<int>(layer.kv_heads),
        static_cast<int>(layer.width), tables, rows, static_cast<const T*>(key), static_cast<const T*>(value));
  });
  return static_cast<int>(cudaGetLastError());
}

int attend_rows(const BlockLayer& layer, const BlockRule& rule, const int32_t* tables, const BlockRow* rows,
                int64_t count, const void* query, int64_t heads, void* out, void* stream) {
  if (count == 0) return 0;
  if (layer.width > kMostDimensions) return static_cast<int>(cudaErrorInvalidValue);
  const int64_t heads_per_key = heads / layer.kv_heads;
  for_type(layer.type, [&]<class T>(T*) {
    const auto with = [&]<int G>(std::integral_constant<int, G>) {
      const auto call = layer.width <= 32    ? attend<T, G, 1>
                        : layer.width <= 64  ? attend<T, G, 2>
                        : layer.width <= 128 ? attend<T, G, 4>
                                             : attend<T, G, 8>;
      call(layer, rule, tables, rows, count, query, heads, out, stream);
    };
    if (heads_per_key == 1)
      with(std::integral_constant<int, 1>());
    else if (heads_per_key == 2)
      with(std::integral_constant<int, 2>());
    else if (heads_per_key <= 4)
      with(std::integral_constant<int, 4>());
    else
      with(std::integral_constant<int, 8>());
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
