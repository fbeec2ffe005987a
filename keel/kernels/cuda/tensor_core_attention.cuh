#pragma once

#include "keel/kernels/cuda/block_layout.cuh"
#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/tensor_cores.cuh"

// Paged attention for bf16 and fp16 on tensor cores: MMAs of [16 heads x 16 dimensions] with 8 keys, and of [16 heads x
// 16 keys] with 8 dimensions. The order of dimensions within an MMA is free if queries and keys agree, and so is the
// order of keys. It is chosen so that every lane loads 8 or 16 bytes at once and needs no data of other lanes.

namespace keel::cuda {

__device__ inline uint32_t packed(float low, float high, const __nv_bfloat16*) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

__device__ inline uint32_t packed(float low, float high, const __half*) {
  const __half2 two = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

/// Zeroes the halves of a word that belong to keys from `written` on.
__device__ inline uint32_t zero_unwritten(uint32_t word, int first_key, int written) {
  return first_key + 1 < written ? word : first_key < written ? word & 0xFFFFu : 0u;
}

template <class T>
union EightElements {
  uint4 all;
  T of[8];
  __device__ EightElements() {}
};

/// Rotates 8 elements of a head's first half with those of the second half, from element `first` on.
template <class T>
__device__ void rotate(EightElements<T>& low, EightElements<T>& high, const RowAngles& angles, int first) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float c = angles.cos[first + i], s = angles.sin[first + i];
    const float a = to_float(low.of[i]), b = to_float(high.of[i]);
    low.of[i] = from_float<T>(a * c - b * s);
    high.of[i] = from_float<T>(b * c + a * s);
  }
}

/// Maximum number of warps per row, limited by registers.
template <int D>
constexpr int kMaxWarps = D <= 64 ? 16 : 8;

/// One thread block for a row, a KV head and up to 8 R query heads that share it. Warps process blocks in turn with an
/// online softmax; their results are merged at the end.
template <class T, int D, int R>
__global__ void __launch_bounds__(kMaxWarps<D>* kLanes)
    tensor_core_attention(T* keys, T* values, HeadShape shape, PagedAttentionConfig config, const int32_t* tables,
                          const PagedRow* rows, const T* query, long long query_stride, const T* key,
                          long long key_stride, const T* value, long long value_stride, const float* cos,
                          const float* sin, T* out) {
  constexpr int kSteps = D / 16, kTiles = D / 8, kBlocks = D <= 64 ? 2 : 1, kHeads = 8 * R;
  extern __shared__ float shared[];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  const int line = lane / 4, quarter = lane % 4;
  const int heads_per_key = shape.heads / shape.kv_heads, parts = (heads_per_key + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.y / parts, part = blockIdx.y % parts;
  const int first_head = kv_head * heads_per_key + part * kHeads,
            head_count = min(kHeads, heads_per_key - part * kHeads);
  allow_next_kernel();
  wait_for_previous_kernel();
  const long long angle = static_cast<long long>(blockIdx.x) * (D / 2);
  const RowAngles angles{cos ? cos + angle : nullptr, sin + angle};
  const PagedRow row = rows[blockIdx.x];
  if (key) {
    store_head<true>(keys, values, shape, kv_head, tables, row, key + blockIdx.x * key_stride + kv_head * D, angles,
                     value + blockIdx.x * value_stride + kv_head * D);
    __syncthreads();
  }

  // This lane loads 8 of every 32 dimensions, from 8 * quarter on, for two steps.
  uint32_t query_tile[kSteps][4] = {};
  for (int r = 0; r < R; ++r) {
    const int head = line + 8 * r;
    if (head >= head_count) continue;
    const T* const query_head = query + blockIdx.x * query_stride + (first_head + head) * D + quarter * 8;
#pragma unroll
    for (int step = 0; step < kSteps / 2; step += 2) {
      EightElements<T> low, high;  // of the two halves
      low.all = *reinterpret_cast<const uint4*>(query_head + 16 * step);
      high.all = *reinterpret_cast<const uint4*>(query_head + 16 * step + D / 2);
      if (cos) rotate(low, high, angles, 16 * step + quarter * 8);
      const auto store = [&](int at, const uint4& eight) {
        query_tile[at][r] = eight.x, query_tile[at][2 + r] = eight.y;
        query_tile[at + 1][r] = eight.z, query_tile[at + 1][2 + r] = eight.w;
      };
      store(step, low.all);
      store(step + kSteps / 2, high.all);
    }
  }

  const int count = row.prompt_keys + row.own_keys;
  const int first = config.window > 0 && count > config.window ? count - static_cast<int>(config.window) : 0;
  const int prompt_blocks = (row.prompt_keys + kTokens - 1) / kTokens;
  const int blocks = prompt_blocks + (row.own_keys + kTokens - 1) / kTokens;
  const int first_block =
      first < row.prompt_keys ? first / kTokens : prompt_blocks + (first - row.prompt_keys) / kTokens;
  float sum[kTiles][4] = {}, total[R] = {}, largest[R];
  for (int r = 0; r < R; ++r) largest[r] = -INFINITY;
  for (int begin = first_block + warp * kBlocks; begin < blocks; begin += warps * kBlocks) {
    // All loads of this iteration are issued at once, to overlap their latency.
    const T *key_of[kBlocks], *value_of[kBlocks];
    int position[kBlocks], written[kBlocks];  // position of a block's first key; number of its keys
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const int block = min(begin + i, blocks - 1);
      const bool own = block >= prompt_blocks;
      const int index = own ? block - prompt_blocks : block;
      written[i] = begin + i < blocks ? min(kTokens, (own ? row.own_keys : row.prompt_keys) - index * kTokens) : 0;
      position[i] = (own ? row.prompt_keys : 0) + index * kTokens;
      const long long offset = head_offset(tables[(own ? row.own_table : row.prompt_table) + index], kv_head, shape);
      key_of[i] = keys + offset + quarter * 8;
      value_of[i] = values + offset + line * kTokens + 4 * quarter;
    }
    // Column c of tile t is key 4 (c / 2) + 2 t + c % 2: a lane's scores are then those of four neighbouring keys.
    uint4 key_tile[kBlocks][2][kSteps / 2];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      for (int tile = 0; tile < 2; ++tile)
        for (int step = 0; step < kSteps; step += 2)
          key_tile[i][tile][step / 2] =
              *reinterpret_cast<const uint4*>(key_of[i] + (4 * (line / 2) + 2 * tile + line % 2) * D + 16 * step);
    uint2 value_tile[kBlocks][kTiles];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      for (int tile = 0; tile < kTiles; ++tile)
        value_tile[i][tile] = *reinterpret_cast<const uint2*>(value_of[i] + tile * 8 * kTokens);
    float score[kBlocks][2][4] = {};
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      for (int tile = 0; tile < 2; ++tile)
        for (int step = 0; step < kSteps; step += 2) {
          const uint4 eight = key_tile[i][tile][step / 2];
          multiply_add(score[i][tile], query_tile[step], make_uint2(eight.x, eight.y), keys);
          multiply_add(score[i][tile], query_tile[step + 1], make_uint2(eight.z, eight.w), keys);
        }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float maximum = largest[r];
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
        for (int tile = 0; tile < 2; ++tile)
          for (int e = 0; e < 2; ++e) {
            const int token = 4 * quarter + 2 * tile + e;
            float s = score[i][tile][2 * r + e] * config.scale;
            if (config.softcap > 0) s = tanhf(s / config.softcap) * config.softcap;
            score[i][tile][2 * r + e] = s = token < written[i] && position[i] + token >= first ? s : -INFINITY;
            maximum = fmaxf(maximum, s);
          }
      maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
      const float base = maximum == -INFINITY ? 0.0f : maximum;  // no key so far is within the window
      const float rescale = __expf(largest[r] - base);
      largest[r] = maximum;
      total[r] *= rescale;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) sum[tile][2 * r] *= rescale, sum[tile][2 * r + 1] *= rescale;
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
        for (int tile = 0; tile < 2; ++tile)
          for (int e = 0; e < 2; ++e) {
            const float p = __expf(score[i][tile][2 * r + e] - base);
            score[i][tile][2 * r + e] = p;
            total[r] += p;  // this lane's keys
          }
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      uint32_t weight[4] = {};
      for (int r = 0; r < R; ++r) {
        weight[r] = packed(score[i][0][2 * r], score[i][0][2 * r + 1], keys);
        weight[2 + r] = packed(score[i][1][2 * r], score[i][1][2 * r + 1], keys);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        uint2 four = value_tile[i][tile];
        if (written[i] < kTokens) {
          four.x = zero_unwritten(four.x, 4 * quarter, written[i]);
          four.y = zero_unwritten(four.y, 4 * quarter + 2, written[i]);
        }
        multiply_add(sum[tile], weight, four, keys);
      }
    }
  }

  // [warps][heads] largest and total, [warps][heads][D] sums.
  float* const max_of = shared;
  float* const total_of = max_of + warps * kHeads;
  float* const sums_of = total_of + warps * kHeads;
  for (int r = 0; r < R; ++r) {
    total[r] += __shfl_xor_sync(~0u, total[r], 1);
    total[r] += __shfl_xor_sync(~0u, total[r], 2);
    const int head = warp * kHeads + line + 8 * r;
    if (quarter == 0) max_of[head] = largest[r], total_of[head] = total[r];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      *reinterpret_cast<float2*>(sums_of + head * D + tile * 8 + 2 * quarter) =
          make_float2(sum[tile][2 * r], sum[tile][2 * r + 1]);
  }
  __syncthreads();
  T* const to = out + (static_cast<long long>(blockIdx.x) * shape.heads + first_head) * D;
  for (int i = threadIdx.x; i < head_count * D; i += blockDim.x) {
    const int head = i / D;
    float maximum = -INFINITY, numerator = 0, denominator = 0;
    for (int w = 0; w < warps; ++w) maximum = fmaxf(maximum, max_of[w * kHeads + head]);
    for (int w = 0; w < warps; ++w) {
      const float rescale = __expf(max_of[w * kHeads + head] - maximum);
      numerator += sums_of[(w * kHeads + head) * D + i % D] * rescale;
      denominator += total_of[w * kHeads + head] * rescale;
    }
    to[i] = from_float<T>(numerator / denominator);
  }
}

}  // namespace keel::cuda
