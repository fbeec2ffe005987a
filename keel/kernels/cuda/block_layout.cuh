#pragma once

#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/paged_row.h"

namespace keel::cuda {

constexpr int kLanes = 32;
constexpr int kTokens = static_cast<int>(kBlockTokens);

struct HeadShape {
  int kv_heads, heads, width;
};

/// Where the numbers of a block stand. On tensor cores a lane takes neighbouring dimensions of one key, and
/// neighbouring keys of one dimension of the values; otherwise it is the other way round.
template <bool tensor_cores>
struct Places {
  __device__ static int key(int token, int d, int width) {
    return tensor_cores ? token * width + d : d * kTokens + token;
  }
  __device__ static int value(int token, int d, int width) {
    return tensor_cores ? d * kTokens + token : token * width + d;
  }
};

/// Where a head's block begins.
__device__ inline long long begin_of(long long block, int head, const HeadShape& shape) {
  return (block * shape.kv_heads + head) * shape.width * kTokens;
}

/// By how much the two halves of a row's heads are turned against each other, [D / 2] each; null: they are already.
struct RowAngles {
  const float *cos, *sin;

  /// Number d of a head whose halves are half long.
  template <class T>
  __device__ T turned(const T* head, int d, int half) const {
    if (!cos) return head[d];
    const int i = d < half ? d : d - half;
    const float a = to_float(head[i]), b = to_float(head[i + half]);
    return from_float<T>(d < half ? a * cos[i] - b * sin[i] : b * cos[i] + a * sin[i]);
  }
};

/// Puts the newest key and value of a row's head into their block; the threads of a block share the work.
template <bool tensor_cores, class T>
__device__ void store_head(T* keys, T* values, const HeadShape& shape, int head, const int32_t* tables,
                           const PagedRow& row, const T* key, const RowAngles& angles, const T* value) {
  const bool own = row.own_keys > 0;
  const int place = (own ? row.own_keys : row.prompt_keys) - 1;
  const int32_t block = tables[(own ? row.own_table : row.prompt_table) + place / kTokens];
  const long long begin = begin_of(block, head, shape);
  for (int d = threadIdx.x; d < shape.width; d += blockDim.x) {
    keys[begin + Places<tensor_cores>::key(place % kTokens, d, shape.width)] = angles.turned(key, d, shape.width / 2);
    values[begin + Places<tensor_cores>::value(place % kTokens, d, shape.width)] = value[d];
  }
}

}  // namespace keel::cuda
