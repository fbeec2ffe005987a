#pragma once

#include "keel/kernels/cuda/block_layout.cuh"
#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/tensor_cores.cuh"

// Attention to blocks with narrow numbers, on tensor cores: products of [16 heads x 16 dimensions] with 8 keys, and of
// [16 heads x 16 keys] with 8 dimensions. Which dimension stands in which column of a product is free as long as
// queries and keys agree, and likewise for keys; it is chosen so that every lane loads 8 or 16 bytes at once and needs
// nobody else's.

namespace keel::cuda {

__device__ inline uint32_t packed(float low, float high, const __nv_bfloat16*) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

__device__ inline uint32_t packed(float low, float high, const __half*) {
  const __half2 two = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

/// Two keys' halves of a word; those that nobody has written become 0.
__device__ inline uint32_t only_written(uint32_t word, int first_key, int written) {
  return first_key + 1 < written ? word : first_key < written ? word & 0xFFFFu : 0u;
}

template <class T>
union EightNumbers {
  uint4 all;
  T of[8];
  __device__ EightNumbers() {}
};

/// Turns 8 numbers of a head's first half against those of its second, from number `first` on.
template <class T>
__device__ void turn(EightNumbers<T>& low, EightNumbers<T>& high, const RowAngles& angles, int first) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float c = angles.cos[first + i], s = angles.sin[first + i];
    const float a = to_float(low.of[i]), b = to_float(high.of[i]);
    low.of[i] = from_float<T>(a * c - b * s);
    high.of[i] = from_float<T>(b * c + a * s);
  }
}

/// Warps that may share a row: what they need of the registers leaves room for so many.
template <int D>
constexpr int kMostWarps = D <= 64 ? 16 : 8;

/// One block of threads for a row, a head of keys and up to 8 R query heads that share it. Warps take runs of blocks in
/// turn, with a softmax that goes along; their results are put together at the end.
template <class T, int D, int R>
__global__ void __launch_bounds__(kMostWarps<D>* kLanes)
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
  const int first_head = kv_head * heads_per_key + part * kHeads, some = min(kHeads, heads_per_key - part * kHeads);
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

  // Of 32 dimensions this lane takes 8, two steps' worth: those from 8 * quarter on.
  uint32_t question[kSteps][4] = {};
  for (int r = 0; r < R; ++r) {
    const int head = line + 8 * r;
    if (head >= some) continue;
    const T* const asked = query + blockIdx.x * query_stride + (first_head + head) * D + quarter * 8;
#pragma unroll
    for (int step = 0; step < kSteps / 2; step += 2) {
      EightNumbers<T> low, high;  // of the two halves
      low.all = *reinterpret_cast<const uint4*>(asked + 16 * step);
      high.all = *reinterpret_cast<const uint4*>(asked + 16 * step + D / 2);
      if (cos) turn(low, high, angles, 16 * step + quarter * 8);
      const auto put = [&](int at, const uint4& eight) {
        question[at][r] = eight.x, question[at][2 + r] = eight.y;
        question[at + 1][r] = eight.z, question[at + 1][2 + r] = eight.w;
      };
      put(step, low.all);
      put(step + kSteps / 2, high.all);
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
    // Everything that a run of blocks needs is asked for at once: memory answers late, and together.
    const T *key_of[kBlocks], *value_of[kBlocks];
    int position[kBlocks], written[kBlocks];  // of the block's first key; keys in it
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const int block = min(begin + i, blocks - 1);
      const bool own = block >= prompt_blocks;
      const int at = own ? block - prompt_blocks : block;
      written[i] = begin + i < blocks ? min(kTokens, (own ? row.own_keys : row.prompt_keys) - at * kTokens) : 0;
      position[i] = (own ? row.prompt_keys : 0) + at * kTokens;
      const long long place = begin_of(tables[(own ? row.own_table : row.prompt_table) + at], kv_head, shape);
      key_of[i] = keys + place + quarter * 8;
      value_of[i] = values + place + line * kTokens + 4 * quarter;
    }
    // Column c of tile t is key 4 (c / 2) + 2 t + c % 2: a lane's scores are then those of four neighbouring keys.
    uint4 some_keys[kBlocks][2][kSteps / 2];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      for (int tile = 0; tile < 2; ++tile)
        for (int step = 0; step < kSteps; step += 2)
          some_keys[i][tile][step / 2] =
              *reinterpret_cast<const uint4*>(key_of[i] + (4 * (line / 2) + 2 * tile + line % 2) * D + 16 * step);
    uint2 some_values[kBlocks][kTiles];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      for (int tile = 0; tile < kTiles; ++tile)
        some_values[i][tile] = *reinterpret_cast<const uint2*>(value_of[i] + tile * 8 * kTokens);
    float score[kBlocks][2][4] = {};
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      for (int tile = 0; tile < 2; ++tile)
        for (int step = 0; step < kSteps; step += 2) {
          const uint4 eight = some_keys[i][tile][step / 2];
          multiply_add(score[i][tile], question[step], make_uint2(eight.x, eight.y), keys);
          multiply_add(score[i][tile], question[step + 1], make_uint2(eight.z, eight.w), keys);
        }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float most = largest[r];
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
        for (int tile = 0; tile < 2; ++tile)
          for (int e = 0; e < 2; ++e) {
            const int at = 4 * quarter + 2 * tile + e;
            float s = score[i][tile][2 * r + e] * config.scale;
            if (config.softcap > 0) s = tanhf(s / config.softcap) * config.softcap;
            score[i][tile][2 * r + e] = s = at < written[i] && position[i] + at >= first ? s : -INFINITY;
            most = fmaxf(most, s);
          }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float base = most == -INFINITY ? 0.0f : most;  // no key of these is seen
      const float shrink = __expf(largest[r] - base);
      largest[r] = most;
      total[r] *= shrink;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) sum[tile][2 * r] *= shrink, sum[tile][2 * r + 1] *= shrink;
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
        uint2 four = some_values[i][tile];
        if (written[i] < kTokens) {
          four.x = only_written(four.x, 4 * quarter, written[i]);
          four.y = only_written(four.y, 4 * quarter + 2, written[i]);
        }
        multiply_add(sum[tile], weight, four, keys);
      }
    }
  }

  // [warps][heads] largest and total, [warps][heads][D] sums.
  float* const most_of = shared;
  float* const total_of = most_of + warps * kHeads;
  float* const sums_of = total_of + warps * kHeads;
  for (int r = 0; r < R; ++r) {
    total[r] += __shfl_xor_sync(~0u, total[r], 1);
    total[r] += __shfl_xor_sync(~0u, total[r], 2);
    const int head = warp * kHeads + line + 8 * r;
    if (quarter == 0) most_of[head] = largest[r], total_of[head] = total[r];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      *reinterpret_cast<float2*>(sums_of + head * D + tile * 8 + 2 * quarter) =
          make_float2(sum[tile][2 * r], sum[tile][2 * r + 1]);
  }
  __syncthreads();
  T* const to = out + (static_cast<long long>(blockIdx.x) * shape.heads + first_head) * D;
  for (int i = threadIdx.x; i < some * D; i += blockDim.x) {
    const int head = i / D;
    float most = -INFINITY, above = 0, below = 0;
    for (int w = 0; w < warps; ++w) most = fmaxf(most, most_of[w * kHeads + head]);
    for (int w = 0; w < warps; ++w) {
      const float shrink = __expf(most_of[w * kHeads + head] - most);
      above += sums_of[(w * kHeads + head) * D + i % D] * shrink;
      below += total_of[w * kHeads + head] * shrink;
    }
    to[i] = from_float<T>(above / below);
  }
}

}  // namespace keel::cuda
