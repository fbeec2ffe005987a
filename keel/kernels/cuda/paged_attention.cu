#include "keel/kernels/cuda/paged_attention.h"
#include "keel/kernels/cuda/tensor_core_attention.cuh"

namespace keel::cuda {
namespace {

/// One thread block per row and KV head.
template <bool tensor_cores, class T>
__global__ void store_kernel(T* keys, T* values, HeadShape shape, const int32_t* tables, const PagedRow* rows,
                             const T* key, long long key_stride, const T* value, long long value_stride) {
  const int head = blockIdx.y;
  store_head<tensor_cores>(keys, values, shape, head, tables, rows[blockIdx.x],
                           key + blockIdx.x * key_stride + head * shape.width, RowAngles{},
                           value + blockIdx.x * value_stride + head * shape.width);
}

constexpr int kWarps = 8;
constexpr int kMaxWidth = 256;

/// One thread block for a row, a KV head and up to G query heads that share it. A warp processes 32 keys at a time with
/// an online softmax: a lane scores one key, then accumulates D of the values' dimensions (32 D >= head width). The
/// warps' results are merged at the end.
template <class T, int G, int D>
__global__ void __launch_bounds__(kWarps* kLanes)
    attend_kernel(const T* keys, const T* values, HeadShape shape, PagedAttentionConfig config, const int32_t* tables,
                  const PagedRow* rows, const T* query, long long query_stride, T* out) {
  extern __shared__ float shared[];
  const int width = shape.width, lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int heads_per_key = shape.heads / shape.kv_heads, parts = (heads_per_key + G - 1) / G;
  const int kv_head = blockIdx.y / parts, first_head = kv_head * heads_per_key + blockIdx.y % parts * G;
  const int head_count = min(G, heads_per_key - static_cast<int>(blockIdx.y) % parts * G);
  float* const queries = shared;                                  // [width][G]
  float* const weight = queries + width * G + warp * kLanes * G;  // [32][G], of this warp
  long long* const value_offset = reinterpret_cast<long long*>(queries + width * G + kWarps * kLanes * G) +
                                  warp * kLanes;  // offsets of values, of this warp
  const PagedRow row = rows[blockIdx.x];
  const T* const query_heads = query + blockIdx.x * query_stride + first_head * width;
  for (int i = threadIdx.x; i < width * G; i += kWarps * kLanes) {
    const int head = i % G, d = i / G;
    queries[i] = head < head_count ? to_float(query_heads[head * width + d]) * config.scale : 0.0f;
  }
  __syncthreads();

  const int count = row.prompt_keys + row.own_keys;
  const int first = config.window > 0 && count > config.window ? count - static_cast<int>(config.window) : 0;
  float sum[G][D] = {}, total[G] = {}, largest[G];
  for (int g = 0; g < G; ++g) largest[g] = -INFINITY;
  for (int begin = first + warp * kLanes; begin < count; begin += kWarps * kLanes) {
    const int key = begin + lane;
    float score[G];
    for (int g = 0; g < G; ++g) score[g] = 0;
    if (key < count) {
      const bool own = key >= row.prompt_keys;
      const int index = own ? key - row.prompt_keys : key;
      const long long block = tables[(own ? row.own_table : row.prompt_table) + index / kBlockTokens];
      const long long start = head_offset(block, kv_head, shape);
      value_offset[lane] = start + static_cast<long long>(index % kBlockTokens) * width;
      const T* const k = keys + start + index % kBlockTokens;
#pragma unroll 8
      for (int d = 0; d < width; ++d) {
        const float x = to_float(k[d * kBlockTokens]);
        for (int g = 0; g < G; ++g) score[g] += x * queries[d * G + g];
      }
    }
    for (int g = 0; g < G; ++g) {
      if (config.softcap > 0) score[g] = tanhf(score[g] / config.softcap) * config.softcap;
      if (key >= count) score[g] = -INFINITY;
      float maximum = score[g];
      for (int half = kLanes / 2; half > 0; half /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, half));
      maximum = fmaxf(maximum, largest[g]);
      const float rescale = expf(largest[g] - maximum), p = expf(score[g] - maximum);
      largest[g] = maximum;
      total[g] = total[g] * rescale + p;  // this lane's keys
      for (int d = 0; d < D; ++d) sum[g][d] *= rescale;
      weight[lane * G + g] = p;
    }
    __syncwarp();
    const int count_here = min(kLanes, count - begin);
#pragma unroll 4
    for (int i = 0; i < count_here; ++i) {
      const T* const v = values + value_offset[i] + lane * D;
      for (int d = 0; d < D; ++d) {
        const float x = lane * D + d < width ? to_float(v[d]) : 0.0f;
        for (int g = 0; g < G; ++g) sum[g][d] += weight[i * G + g] * x;
      }
    }
    __syncwarp();
  }

  // [warps][G] largest and total, [warps][G][width] sums; they reuse the shared memory of queries and weights.
  __syncthreads();
  float* const max_of = shared;
  float* const total_of = max_of + kWarps * G;
  float* const sums_of = total_of + kWarps * G;
  for (int g = 0; g < G; ++g) {
    for (int half = kLanes / 2; half > 0; half /= 2) total[g] += __shfl_xor_sync(~0u, total[g], half);
    if (lane == 0) max_of[warp * G + g] = largest[g], total_of[warp * G + g] = total[g];
    for (int d = 0; d < D; ++d)
      if (lane * D + d < width) sums_of[(warp * G + g) * width + lane * D + d] = sum[g][d];
  }
  __syncthreads();
  T* const to = out + (static_cast<long long>(blockIdx.x) * shape.heads + first_head) * width;
  for (int i = threadIdx.x; i < head_count * width; i += kWarps * kLanes) {
    const int g = i / width, d = i % width;
    float maximum = -INFINITY, numerator = 0, denominator = 0;
    for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, max_of[w * G + g]);
    for (int w = 0; w < kWarps; ++w) {
      const float rescale = expf(max_of[w * G + g] - maximum);
      numerator += sums_of[(w * G + g) * width + d] * rescale;
      denominator += total_of[w * G + g] * rescale;
    }
    to[i] = from_float<T>(numerator / denominator);
  }
}

/// Arguments of a launch.
struct Call {
  const KvCachePointers& layer;
  const PagedAttentionConfig& config;
  const int32_t* tables;
  const PagedRow* rows;
  int64_t count;
  const HeadRows& heads;
  void* out;
  cudaStream_t stream;

  HeadShape shape() const {
    return {static_cast<int>(layer.kv_heads), static_cast<int>(heads.heads), static_cast<int>(layer.width)};
  }
  /// One thread block per row and up to `heads_per_block` query heads that share a KV head.
  dim3 grid(int64_t heads_per_block) const {
    const int64_t heads_per_key = heads.heads / layer.kv_heads;
    return dim3(static_cast<unsigned int>(count),
                static_cast<unsigned int>(layer.kv_heads * ((heads_per_key + heads_per_block - 1) / heads_per_block)));
  }
  template <bool tensor_cores, class T>
  void store() const {
    const dim3 each(static_cast<unsigned int>(count), static_cast<unsigned int>(layer.kv_heads));
    store_kernel<tensor_cores><<<each, 64, 0, stream>>>(
        static_cast<T*>(layer.keys), static_cast<T*>(layer.values), shape(), tables, rows,
        static_cast<const T*>(heads.key), heads.key_stride, static_cast<const T*>(heads.value), heads.value_stride);
  }
};

template <class T, int G, int D>
void attend(const Call& call) {
  const int64_t width = call.layer.width;
  const size_t loop_bytes = (width * G + kWarps * kLanes * G) * sizeof(float) + kWarps * kLanes * sizeof(long long);
  const size_t merge_bytes = (kWarps * G * (2 + width)) * sizeof(float);
  const size_t bytes = loop_bytes > merge_bytes ? loop_bytes : merge_bytes;
  allow_shared_bytes(attend_kernel<T, G, D>, bytes);
  attend_kernel<T, G, D><<<call.grid(G), kWarps * kLanes, bytes, call.stream>>>(
      static_cast<const T*>(call.layer.keys), static_cast<const T*>(call.layer.values), call.shape(), call.config,
      call.tables, call.rows, static_cast<const T*>(call.heads.query), call.heads.query_stride,
      static_cast<T*>(call.out));
}

template <class T>
void attend_without_tensor_cores(const Call& call) {
  const int64_t heads_per_key = call.heads.heads / call.layer.kv_heads, width = call.layer.width;
  call.store<false, T>();
  const auto launch_for = [&]<int G>(std::integral_constant<int, G>) {
    const auto attend_with = width <= 32    ? attend<T, G, 1>
                             : width <= 64  ? attend<T, G, 2>
                             : width <= 128 ? attend<T, G, 4>
                                            : attend<T, G, 8>;
    attend_with(call);
  };
  if (heads_per_key == 1)
    launch_for(std::integral_constant<int, 1>());
  else if (heads_per_key == 2)
    launch_for(std::integral_constant<int, 2>());
  else if (heads_per_key <= 4)
    launch_for(std::integral_constant<int, 4>());
  else
    launch_for(std::integral_constant<int, 8>());
}

/// D: head width; R: groups of 8 query heads per thread block.
template <class T, int D, int R>
void attend_on_tensor_cores(const Call& call, bool one_row_per_sequence) {
  if (!one_row_per_sequence) call.store<true, T>();
  const dim3 grid = call.grid(8 * R);
  // Each block has fewer warps if there are many blocks. If deterministic, their number is fixed.
  const auto processors = static_cast<unsigned int>(multiprocessors());
  const unsigned int blocks_per_sm = (grid.x * grid.y + processors - 1) / processors;
  const unsigned int warps = call.config.deterministic || blocks_per_sm > 2 ? 4 : blocks_per_sm == 2 ? 8 : kMaxWarps<D>;
  const size_t bytes = warps * 8 * R * (2 + D) * sizeof(float);
  allow_shared_bytes(tensor_core_attention<T, D, R>, bytes);
  launch(tensor_core_attention<T, D, R>, grid, static_cast<int>(warps) * kLanes, bytes, call.stream,
         static_cast<T*>(call.layer.keys), static_cast<T*>(call.layer.values), call.shape(), call.config, call.tables,
         call.rows, static_cast<const T*>(call.heads.query), call.heads.query_stride,
         one_row_per_sequence ? static_cast<const T*>(call.heads.key) : nullptr, call.heads.key_stride,
         static_cast<const T*>(call.heads.value), call.heads.value_stride, call.heads.cos, call.heads.sin,
         static_cast<T*>(call.out));
}

/// Runs the tensor core kernel if it supports this width. Returns whether it did.
template <class T>
bool try_tensor_cores(const Call& call, bool one_row_per_sequence) {
  const bool many = call.heads.heads / call.layer.kv_heads > 8;
  const auto launch_for = [&]<int D>(std::integral_constant<int, D>) {
    many ? attend_on_tensor_cores<T, D, 2>(call, one_row_per_sequence)
         : attend_on_tensor_cores<T, D, 1>(call, one_row_per_sequence);
    return true;
  };
  switch (call.layer.width) {
    case 64:
      return launch_for(std::integral_constant<int, 64>());
    case 128:
      return launch_for(std::integral_constant<int, 128>());
    case 256:
      return launch_for(std::integral_constant<int, 256>());
    default:
      return false;
  }
}

/// Returns whether queries can be loaded 16 bytes at a time.
bool is_aligned(const HeadRows& heads) {
  return reinterpret_cast<uintptr_t>(heads.query) % 16 == 0 && heads.query_stride % 8 == 0;
}

}  // namespace

bool can_rotate_heads(const KvCachePointers& layer) {
  return layer.type != FloatType::kFloat32 && (layer.width == 64 || layer.width == 128 || layer.width == 256);
}

int store_rows(const KvCachePointers& layer, const int32_t* tables, const PagedRow* rows, int64_t count,
               const HeadRows& heads, void* stream) {
  if (count == 0) return 0;
  const PagedAttentionConfig unused{};
  const Call call{layer, unused, tables, rows, count, heads, nullptr, static_cast<cudaStream_t>(stream)};
  for_type(layer.type, [&]<class T>(T*) { can_rotate_heads(layer) ? call.store<true, T>() : call.store<false, T>(); });
  return static_cast<int>(cudaGetLastError());
}

int attend_rows(const KvCachePointers& layer, const PagedAttentionConfig& config, const int32_t* tables,
                const PagedRow* rows, int64_t count, const HeadRows& heads, bool one_row_per_sequence, void* out,
                void* stream) {
  if (count == 0) return 0;
  if (layer.width > kMaxWidth || (layer.type != FloatType::kFloat32 && layer.width % 8 == 0 && !is_aligned(heads)) ||
      (heads.cos && !(one_row_per_sequence && can_rotate_heads(layer))))
    return static_cast<int>(cudaErrorInvalidValue);
  const Call call{layer, config, tables, rows, count, heads, out, static_cast<cudaStream_t>(stream)};
  for_type(layer.type, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, float>)
      if (try_tensor_cores<T>(call, one_row_per_sequence)) return;
    attend_without_tensor_cores<T>(call);
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
