#pragma once

#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/paged_row.h"

namespace keel::cuda {

constexpr int kLanes = 32;
constexpr int kTokens = static_cast<int>(kBlockTokens);

struct HeadShape {
  int kv_heads, heads, width;
};

/// Layout of a KV cache block. For tensor cores, adjacent elements are dimensions of one key, and keys of one dimension
/// of the values; otherwise it is the other way round.
template <bool tensor_cores>
struct BlockLayout {
  __device__ static int key(int token, int d, int width) {
    return tensor_cores ? token * width + d : d * kTokens + token;
  }
  __device__ static int value(int token, int d, int width) {
    return tensor_cores ? d * kTokens + token : token * width + d;
  }
};

/// Offset of a head's part of a block.
__device__ inline long long head_offset(long long block, int head, const HeadShape& shape) {
  return (block * shape.kv_heads + head) * shape.width * kTokens;
}

/// Rotary angles of a row, [D / 2] each; null: already rotated.
struct RowAngles {
  const float *cos, *sin;

  /// Element d of the rotated head; `half` is half of its width.
  template <class T>
  __device__ T rotated(const T* head, int d, int half) const {
    if (!cos) return head[d];
    const int i = d < half ? d : d - half;
    const float a = to_float(head[i]), b = to_float(head[i + half]);
    return from_float<T>(d < half ? a * cos[i] - b * sin[i] : b * cos[i] + a * sin[i]);
  }
};

/// Writes the key and value of a row's head to the KV cache, with all threads of the thread block.
template <bool tensor_cores, class T>
__device__ void store_head(T* keys, T* values, const HeadShape& shape, int head, const int32_t* tables,
                           const PagedRow& row, const T* key, const RowAngles& angles, const T* value) {
  const bool own = row.own_keys > 0;
  const int index = (own ? row.own_keys : row.prompt_keys) - 1;
  const int32_t block = tables[(own ? row.own_table : row.prompt_table) + index / kTokens];
  const long long begin = head_offset(block, head, shape);
  for (int d = threadIdx.x; d < shape.width; d += blockDim.x) {
    keys[begin + BlockLayout<tensor_cores>::key(index % kTokens, d, shape.width)] =
        angles.rotated(key, d, shape.width / 2);
    values[begin + BlockLayout<tensor_cores>::value(index % kTokens, d, shape.width)] = value[d];
  }
}

}  // namespace keel::cuda
