#pragma once

#include <cooperative_groups.h>

#include <algorithm>

#include "keel/kernels/cuda/gemm.h"
#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/warpgroup_mma.cuh"

// Split-K GEMM. Each thread block of a cluster multiplies a tile of rows and outputs with its part of the inputs; then
// each block sums the parts of some rows in a fixed order, so that a row's result does not depend on other rows. The
// weights do not depend on previous kernels, so their loads start before the kernel waits for those.
//
// With a LoRA adapter, each block also computes its part of u = x A^T, rounds it, and adds u B^T to its own product.
// The sum of the parts then contains the adapter.

namespace keel::cuda {

constexpr int kWarpgroup = 128, kGroupRows = 64;  // threads, and the rows that they multiply
constexpr int kMaxParts = 8;                      // portable limit of blocks per cluster
constexpr int kPad = 4;
constexpr int kHalfShared = 112 << 10;  // bytes, so that a multiprocessor holds two blocks

__device__ inline void copy_chunk(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}
/// Copies the chunk, or writes zeros and reads nothing.
__device__ inline void copy_chunk_if(bool copies, void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(copies ? 16 : 0));
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;"); }
template <int kNewer>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewer));
}

// Asynchronous copies to another block of the cluster, and the barrier at which that block waits for them.

__device__ inline void expect_bytes(uint64_t* arrived, int bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrived)));
  asm volatile("fence.mbarrier_init.release.cluster;");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrived)), "r"(bytes));
}
__device__ inline void send(void* to, const void* from, int bytes, void* arrived) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "r"(shared_address(from)), "r"(bytes), "r"(shared_address(arrived))
               : "memory");
}
__device__ inline void wait_for_bytes(uint64_t* arrived) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n}" ::"r"(shared_address(arrived))
      : "memory");
}

/// silu(gate) up.
template <class T>
__device__ T gated_value(float gate, float up) {
  gate = rounded<T>(gate);
  return from_float<T>(rounded<T>(__fdividef(gate, 1.0f + __expf(-gate))) * rounded<T>(up));
}

/// Pipeline stages of a tile with an adapter: few enough that a multiprocessor holds two blocks, one of which loads the
/// next kernel's weights while the other ends; but at least 3.
constexpr int stages_with_adapter(int stage_bytes, int other_bytes) {
  const int of_two_blocks = (kHalfShared - other_bytes) / stage_bytes,
            of_one_block = (2 * kHalfShared - other_bytes) / stage_bytes;
  return std::min(6, of_two_blocks >= 3 ? of_two_blocks : of_one_block);
}

/// The tile of a thread block. `rank` 0: no adapter; `single`: the cluster has one block.
template <int rows, int outputs, int rank, bool is_gated, bool is_single>
struct GemmTile {
  static constexpr int kRows = rows, kOutputs = outputs, kRank = rank, kThreads = rows / kGroupRows * kWarpgroup,
                       kPitch = outputs + kPad;
  static constexpr bool kGated = is_gated, kSingle = is_single;
  /// Elements of a pipeline stage: inputs of the rows, the outputs' weights, and A.
  static constexpr int kStage = (rows + outputs + rank) * kDepth;
  static constexpr int kSumBytes = (rows + kMaxParts) * kPitch * static_cast<int>(sizeof(float));
  /// The sums of other blocks have separate memory, because they arrive during the multiplication.
  static constexpr int kSeparateSumBytes = is_single ? 0 : kSumBytes;
  static constexpr int kStages = rank > 0 ? stages_with_adapter(kStage * 2, kSeparateSumBytes) : is_single ? 6 : 5;
  static constexpr int kStageBytes = kStages * kStage * 2;
  static constexpr int kSharedBytes = std::max(kStageBytes + kSeparateSumBytes, kSumBytes);
  static constexpr int kBlocks = kSharedBytes <= kHalfShared ? 2 : 1;  // per multiprocessor
};

/// Arguments of skinny_gemm_kernel. `added` and `added_weight` are A and B of an adapter if the tile has a rank,
/// otherwise u and B of an added product.
template <class T>
struct SkinnyGemm {
  const T* x;
  long long stride;
  const T *weight, *added, *added_weight, *bias;
  int rows, inputs, added_inputs, outputs;
  T* y;
};

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    skinny_gemm_kernel(const __grid_constant__ SkinnyGemm<T> gemm) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kRows = Tile::kRows, kOutputs = Tile::kOutputs, kRank = Tile::kRank, kThreads = Tile::kThreads,
                kNumStages = Tile::kStages, kStage = Tile::kStage, kPitch = Tile::kPitch, kLoaded = kThreads / kChunks;
  constexpr bool gated = Tile::kGated, single = Tile::kSingle;
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  __shared__ uint64_t arrived;
  T* const stages = reinterpret_cast<T*>(shared_bytes);
  float* const sums = reinterpret_cast<float*>(shared_bytes + (single ? 0 : Tile::kStageBytes));
  allow_next_kernel();
  namespace groups = cooperative_groups;
  const groups::cluster_group cluster = groups::this_cluster();
  const long long first_row = blockIdx.z * kRows;
  const int inputs = gemm.inputs, added_inputs = gemm.added_inputs, stride = static_cast<int>(gemm.stride);
  const int rows = min(kRows, gemm.rows - static_cast<int>(first_row));
  const T *const x = gemm.x + first_row * gemm.stride, *const bias = gemm.bias;
  const int part = single ? 0 : blockIdx.x, parts = single ? 1 : gridDim.x, own_steps = inputs / kDepth,
            steps = own_steps + (kRank > 0 ? 0 : added_inputs / kDepth);
  constexpr int kRowBytes = kPitch * static_cast<int>(sizeof(float));
  const int rows_per_part = (rows + parts - 1) / parts;  // that one block sums
  const auto rows_in_part = [&](int which) { return max(0, min(rows_per_part, rows - which * rows_per_part)); };
  const int own_rows = rows_in_part(part);
  if constexpr (!single) {
    if (threadIdx.x == 0) expect_bytes(&arrived, own_rows * parts * kRowBytes);
    cluster.barrier_arrive();
  }
  const int begin = steps * part / parts, count = steps * (part + 1) / parts - begin;
  const int line = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;  // that this thread copies
  // A gated GEMM interleaves 8 outputs of the gate and 8 of `up`.
  constexpr int kColumns = gated ? kOutputs / 2 : kOutputs, kStep = gated ? kLoaded / 2 : kLoaded;
  const int width = gated ? gemm.outputs / 2 : gemm.outputs, first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int first_output = first_column + (gated ? line / 16 * 8 + line % 8 : line),
            shift = gated && line % 16 >= 8 ? width : 0;
  const long long output = first_output + shift;
  // The steps of an added product follow those of the own one; B of an adapter is the weight of one more stage.
  const int weight_stages = count + (kRank > 0 ? 1 : 0);
  const auto load_weight = [&](int stage) {
    T* const to = stages + stage % kNumStages * kStage + kRows * kDepth;
    if constexpr (kRank > 0) {
      if (stage == count) {
        const T* const from = gemm.added_weight + output * added_inputs + chunk * kChunk;
        if (chunk < kRank / kChunk)
#pragma unroll
          for (int i = 0; i < kOutputs / kLoaded; ++i)
            if (first_output + i * kStep < width)
              copy_chunk_if(chunk * kChunk < added_inputs, to + chunk_offset(line + i * kLoaded, chunk),
                            from + i * kStep * added_inputs);
        return;
      }
      const T* const from =
          gemm.added + static_cast<long long>(line) * inputs + (begin + stage) * kDepth + chunk * kChunk;
#pragma unroll
      for (int i = 0; i < (kRank + kLoaded - 1) / kLoaded; ++i)
        if (const int rank = line + i * kLoaded; rank < kRank)
          copy_chunk_if(rank < added_inputs, to + kOutputs * kDepth + chunk_offset(rank, chunk),
                        from + i * kLoaded * inputs);
    }
    const int step = begin + stage;
    const bool is_own = kRank > 0 || step < own_steps;
    const int pitch = is_own ? inputs : added_inputs;
    const T* const from = (is_own ? gemm.weight : gemm.added_weight) + output * pitch +
                          (is_own ? step : step - own_steps) * kDepth + chunk * kChunk;
#pragma unroll
    for (int i = 0; i < kOutputs / kLoaded; ++i)
      if (first_output + i * kStep < width)
        copy_chunk(to + chunk_offset(line + i * kLoaded, chunk), from + i * kStep * pitch);
  };
  const auto load_rows = [&](int stage) {
    const int step = begin + stage;
    const bool is_own = kRank > 0 || step < own_steps;
    const int pitch = is_own ? stride : added_inputs;
    const T* const from_rows = (is_own ? x : gemm.added) + static_cast<long long>(line) * pitch +
                               (is_own ? step : step - own_steps) * kDepth + chunk * kChunk;
    T* const to = stages + stage % kNumStages * kStage;
#pragma unroll
    for (int i = 0; i < kRows / kLoaded; ++i)
      if (line + i * kLoaded < rows)
        copy_chunk(to + chunk_offset(line + i * kLoaded, chunk), from_rows + i * kLoaded * pitch);
  };
  for (int stage = 0; stage < min(kNumStages - 1, weight_stages); ++stage) load_weight(stage);
  wait_for_previous_kernel();
  for (int stage = 0; stage < kNumStages - 1; ++stage) {
    if (stage < count) load_rows(stage);
    end_copies();
  }
  const int lane = threadIdx.x % 32, sum_row = threadIdx.x / 32 * 16 + lane / 4;  // and sum_row + 8
  const auto row_descriptor = [&](int stage) {
    return tile_descriptor(stages + stage % kNumStages * kStage + threadIdx.x / kWarpgroup * kGroupRows * kDepth);
  };
  const auto weight_descriptor = [&](int stage) {
    return tile_descriptor(stages + stage % kNumStages * kStage + kRows * kDepth);
  };
  float sum[kOutputs / 2] = {};  // Rows and outputs that were not loaded give garbage that is not written.
  float low_rank[kRank > 0 ? kRank / 2 : 1] = {};
  for (int stage = 0; stage < count; ++stage) {
    wait_for_copies<kNumStages - 2>();
    fence_shared_memory();
    __syncthreads();
    const uint64_t row_tile = row_descriptor(stage), weights = weight_descriptor(stage);
    fence_mma();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      multiply_add(sum, row_tile + 2 * step, weights + 2 * step, x);
      if constexpr (kRank > 0)
        multiply_add(low_rank, row_tile + 2 * step, weights + kOutputs * kDepth * 2 / 16 + 2 * step, x);
    }
    commit_mma();
    const int next = stage + kNumStages - 1;
    if (next < weight_stages) load_weight(next);
    if (next < count) load_rows(next);
    end_copies();
    wait_for_mma();
  }
  if constexpr (kRank > 0) {  // u is the row tile of the stage of B
    keep_after_wait(low_rank);
    T* const to = stages + count % kNumStages * kStage;
#pragma unroll
    for (int side = 0; side < 2; ++side)
#pragma unroll
      for (int i = 0; i < kRank / 8; ++i)
        *reinterpret_cast<Vector<T, 2>*>(to + chunk_offset(sum_row + 8 * side, i) + lane % 4 * 2) = {
            from_float<T>(low_rank[4 * i + 2 * side]), from_float<T>(low_rank[4 * i + 2 * side + 1])};
    wait_for_copies<0>();
    fence_shared_memory();
    __syncthreads();
    const uint64_t row_tile = row_descriptor(count), weights = weight_descriptor(count);
    fence_mma();
#pragma unroll
    for (int step = 0; step < kRank / 16; ++step) multiply_add(sum, row_tile + 2 * step, weights + 2 * step, x);
    commit_mma();
    wait_for_mma();
  }

  // Part p sums the rows from p * rows_per_part on, in `sums` [parts][rows_per_part][kPitch]. Two adjacent lanes
  // exchange numbers, so that each writes four numbers of one tile.
  wait_for_copies<0>();
  __syncthreads();  // the stages are not read any more
  float* const own_sums = reinterpret_cast<float*>(shared_bytes);
  const int odd = lane % 2, offset = 4 * (lane % 4 / 2);
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    float* const to = own_sums + (sum_row + 8 * side) * kPitch + odd * 8 + offset;
#pragma unroll
    for (int column = 0; column < kOutputs / 8; column += 2) {
      const float* const two = sum + column * 4 + side * 2;
      const auto from_neighbour = [&](int i) { return __shfl_xor_sync(~0u, odd ? two[i] : two[4 + i], 1); };
      const float first = from_neighbour(0), second = from_neighbour(1);
      *reinterpret_cast<float4*>(to + column * 8) =
          odd ? make_float4(first, second, two[4], two[5]) : make_float4(two[0], two[1], first, second);
    }
  }
  if constexpr (!single) fence_shared_memory();
  __syncthreads();
  if constexpr (!single) {
    cluster.barrier_wait();
    const int to = threadIdx.x, bytes = to < parts ? rows_in_part(to) * kRowBytes : 0;
    if (bytes > 0)
      send(cluster.map_shared_rank(sums + part * rows_per_part * kPitch, to), own_sums + to * rows_per_part * kPitch,
           bytes, cluster.map_shared_rank(&arrived, to));
    wait_for_bytes(&arrived);
    cluster.barrier_arrive();
  }
  constexpr int kFours = kColumns / 4;
  const auto with_bias = [&](float value, int output) { return bias ? value + to_float(bias[output]) : value; };
#pragma unroll(single ? 5 : 1)
  for (int i = threadIdx.x; i < own_rows * kFours; i += kThreads) {
    const int row = i / kFours, tile_column = i % kFours * 4, column = first_column + tile_column;
    if (column >= width) continue;
    const auto total = [&](int from) {
      float4 result = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int p = 0; p < (single ? 1 : kMaxParts); ++p)
        if (p < parts) {
          const float4 addend = *reinterpret_cast<const float4*>(sums + (p * rows_per_part + row) * kPitch + from);
          result.x += addend.x, result.y += addend.y, result.z += addend.z, result.w += addend.w;
        }
      return result;
    };
    const int from = gated ? tile_column / 8 * 16 + tile_column % 8 : tile_column;
    const float4 first = total(from), second = gated ? total(from + 8) : first;
    const float value[4] = {first.x, first.y, first.z, first.w}, up[4] = {second.x, second.y, second.z, second.w};
    Vector<T, 4> four;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float total_of_output = with_bias(value[j], column + j);
      four.of[j] = gated ? gated_value<T>(total_of_output, with_bias(up[j], width + column + j))
                         : from_float<T>(total_of_output);
    }
    *reinterpret_cast<Vector<T, 4>*>(gemm.y + (first_row + part * rows_per_part + row) * width + column) = four;
  }
  if constexpr (!single) cluster.barrier_wait();  // a block may not exit before its copies have arrived
#endif
}

/// Number of parts into which the inputs are split: at most one block per multiprocessor, and all clusters run at once.
/// A cluster is within one of the groups of multiprocessors (GPCs), which have at least 16.
inline int number_of_parts(int processors, int blocks, int64_t steps, int blocks_per_processor) {
  constexpr int kGroup = 16;
  int parts = static_cast<int>(std::min<int64_t>({kMaxParts, std::max(1, processors / blocks), steps}));
  while (parts > 1 && blocks > processors / kGroup * (kGroup * blocks_per_processor / parts)) --parts;
  return parts;
}

/// Launches the kernel with this tile if there is at most one block per multiprocessor, or if it `must`. Splits the
/// inputs over the remaining multiprocessors.
template <class T, int kRows, int kOutputs, int kRank, bool gated>
bool launch_skinny_gemm(const GemmArguments& arguments, bool must, void* y, void* stream) {
  const auto tiles_of = [](int64_t count, int size) { return static_cast<int>((count + size - 1) / size); };
  const int processors = multiprocessors(), row_tiles = tiles_of(arguments.rows, kRows),
            tiles = tiles_of(arguments.outputs, kOutputs), blocks = row_tiles * tiles;
  if (blocks > processors && !must) return false;
  const bool fused = kRank > 0;
  const int64_t steps = (arguments.inputs + (fused ? 0 : arguments.added.rank)) / kDepth;
  // Wider tiles are used only if narrower ones occupy all multiprocessors, so they have one part.
  constexpr bool kSplits = kOutputs == (kRows > kGroupRows ? 128 : 64);
  int parts = 1;
  if constexpr (kSplits)
    parts = number_of_parts(processors, blocks, steps, GemmTile<kRows, kOutputs, kRank, gated, false>::kBlocks);
  const auto launch_tiles = [&]<bool single>(std::bool_constant<single>) {
    using Tile = GemmTile<kRows, kOutputs, kRank, gated, single>;
    const auto kernel = skinny_gemm_kernel<T, Tile>;
    allow_shared_bytes(kernel, Tile::kSharedBytes);
    launch_in_clusters(
        kernel, dim3(static_cast<unsigned>(parts), static_cast<unsigned>(tiles), static_cast<unsigned>(row_tiles)),
        parts, Tile::kThreads, Tile::kSharedBytes, stream,
        SkinnyGemm<T>{static_cast<const T*>(arguments.x), arguments.stride, static_cast<const T*>(arguments.weight),
                      static_cast<const T*>(fused ? arguments.added.a : arguments.added.u),
                      static_cast<const T*>(arguments.added.b), static_cast<const T*>(arguments.bias),
                      static_cast<int>(arguments.rows), static_cast<int>(arguments.inputs),
                      static_cast<int>(arguments.added.rank), static_cast<int>(arguments.outputs), static_cast<T*>(y)});
  };
  if constexpr (kSplits)
    if (parts > 1) return launch_tiles(std::false_type()), true;
  return launch_tiles(std::true_type()), true;
}

/// Launches a GEMM with a LoRA adapter.
void launch_with_adapter(const GemmArguments& arguments, bool gated, void* y, void* stream);

}  // namespace keel::cuda
