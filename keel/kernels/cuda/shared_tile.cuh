#pragma once

// Tiles of narrow numbers in shared memory, as tensor cores read them: a row has 64 of them (128 bytes, 8 chunks), and
// chunk c of row r stands at c ^ (r % 8), so that chunks of neighbouring rows stand in different banks.

namespace keel::cuda {

constexpr int kDepth = 64, kChunk = 8, kChunks = kDepth / kChunk;

__device__ inline int chunk_place(int row, int chunk) { return row * kDepth + (chunk ^ (row & 7)) * kChunk; }

__device__ inline unsigned int shared_address(const void* place) {
  return static_cast<unsigned int>(__cvta_generic_to_shared(place));
}

}  // namespace keel::cuda
