#pragma once

#include <cstdint>

#include "keel/kernels/cuda/float_types.cuh"

namespace keel::cuda {

/// c += a b by a warp's tensor cores: [16 x 16] times [16 x 8], accumulated in float32.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint2 b, const __nv_bfloat16*) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint2 b, const __half*) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

// Swizzled tiles of bf16 or fp16 in shared memory. A row has 64 elements (128 bytes, 8 chunks). Chunk c of row r is
// stored at c ^ (r % 8), so that chunks of adjacent rows are in different banks.

constexpr int kDepth = 64, kChunk = 8, kChunks = kDepth / kChunk;

__device__ inline int chunk_offset(int row, int chunk) { return row * kDepth + (chunk ^ (row & 7)) * kChunk; }

__device__ inline unsigned int shared_address(const void* pointer) {
  return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

}  // namespace keel::cuda
