#include "keel/kernels/cuda/gemm.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/warpgroup_mma.cuh"

// 1 if this file is compiled for sm_90a.
#ifndef KEEL_HOPPER
#define KEEL_HOPPER 0
#endif

// Split-K GEMM. Each thread block of a cluster multiplies a tile of outputs with its part of the inputs; then each
// block sums the parts of some rows in a fixed order, so that a row's result does not depend on other rows. The weights
// do not depend on previous kernels, so their loads start before the kernel waits for those.

namespace keel::cuda {
namespace {

constexpr int kThreads = 128, kMaxRows = 64;
constexpr int kMaxParts = 8;  // portable limit of blocks per cluster
constexpr int kPad = 4;

__device__ void copy_chunk(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}
__device__ void end_copies() { asm volatile("cp.async.commit_group;"); }
template <int kNewer>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewer));
}

// Asynchronous copies to another block of the cluster, and the barrier at which that block waits for them.

__device__ void expect_bytes(uint64_t* arrived, int bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrived)));
  asm volatile("fence.mbarrier_init.release.cluster;");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrived)), "r"(bytes));
}
__device__ void send(void* to, const void* from, int bytes, void* arrived) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "r"(shared_address(from)), "r"(bytes), "r"(shared_address(arrived))
               : "memory");
}
__device__ void wait_for_bytes(uint64_t* arrived) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n}" ::"r"(shared_address(arrived))
      : "memory");
}

/// silu(gate) up.
template <class T>
__device__ T gated_value(float gate, float up) {
  const auto rounded = [](float x) { return to_float(from_float<T>(x)); };
  gate = rounded(gate);
  return from_float<T>(rounded(__fdividef(gate, 1.0f + __expf(-gate))) * rounded(up));
}

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T of[4];
};

/// Pipeline stages: few enough that a multiprocessor holds two blocks, one of which loads the next kernel's weights
/// while the other ends. The sums of other blocks have separate memory, because they arrive during the multiplication.
template <bool single>
constexpr int kStages = single ? 6 : 5;
template <int kOutputs>
constexpr int kStage = (kOutputs + kMaxRows) * kDepth;
template <int kOutputs>
constexpr int kSumBytes = (kMaxRows + kMaxParts) * (kOutputs + kPad) * static_cast<int>(sizeof(float));

template <class T, int kOutputs, bool gated, bool single>
__global__ void __launch_bounds__(kThreads)
    skinny_gemm_kernel(const T* x, long long stride, const T* weight, const T* added_x, const T* added_weight,
                       const T* bias, int rows, int inputs, int added_inputs, int outputs, T* y) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kNumStages = kStages<single>, kSize = kStage<kOutputs>, kPitch = kOutputs + kPad,
                kLoaded = kThreads / kChunks;
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  __shared__ uint64_t arrived;
  T* const stages = reinterpret_cast<T*>(shared_bytes);
  float* const sums = reinterpret_cast<float*>(shared_bytes + (single ? 0 : kNumStages * kSize * sizeof(T)));
  allow_next_kernel();
  namespace groups = cooperative_groups;
  const groups::cluster_group cluster = groups::this_cluster();
  const int part = single ? 0 : blockIdx.x, parts = single ? 1 : gridDim.x, own_steps = inputs / kDepth,
            steps = own_steps + added_inputs / kDepth;
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
  const int width = gated ? outputs / 2 : outputs, first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int first_output = first_column + (gated ? line % 8 : line), shift = gated && line >= 8 ? width : 0;
  // The steps of the added product follow those of the own one.
  const auto load_weight = [&](int stage) {
    const int step = begin + stage;
    const bool is_own = step < own_steps;
    const long long pitch = is_own ? inputs : added_inputs;
    const T* const from_weight = (is_own ? weight : added_weight) + (first_output + shift) * pitch +
                                 (is_own ? step : step - own_steps) * kDepth + chunk * kChunk;
    T* const to = stages + stage % kNumStages * kSize + kMaxRows * kDepth;
#pragma unroll
    for (int i = 0; i < kOutputs / kLoaded; ++i)
      if (first_output + i * kStep < width)
        copy_chunk(to + chunk_offset(line + i * kLoaded, chunk), from_weight + i * kStep * pitch);
  };
  const auto load_rows = [&](int stage) {
    const int step = begin + stage;
    const bool is_own = step < own_steps;
    const long long pitch = is_own ? stride : added_inputs;
    const T* const from_rows =
        (is_own ? x : added_x) + line * pitch + (is_own ? step : step - own_steps) * kDepth + chunk * kChunk;
    T* const to = stages + stage % kNumStages * kSize;
#pragma unroll
    for (int i = 0; i < kMaxRows / kLoaded; ++i)
      if (line + i * kLoaded < rows)
        copy_chunk(to + chunk_offset(line + i * kLoaded, chunk), from_rows + i * kLoaded * pitch);
  };
  for (int stage = 0; stage < min(kNumStages - 1, count); ++stage) load_weight(stage);
  wait_for_previous_kernel();
  for (int stage = 0; stage < kNumStages - 1; ++stage) {
    if (stage < count) load_rows(stage);
    end_copies();
  }
  float sum[kOutputs / 2] = {};  // Rows and outputs that were not loaded give garbage that is not written.
  for (int stage = 0; stage < count; ++stage) {
    wait_for_copies<kNumStages - 2>();
    fence_shared_memory();
    __syncthreads();
    const uint64_t tile = tile_descriptor(stages + stage % kNumStages * kSize),
                   weights = tile_descriptor(stages + stage % kNumStages * kSize + kMaxRows * kDepth);
    fence_mma();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) multiply_add(sum, tile + 2 * step, weights + 2 * step, x);
    commit_mma();
    if (const int next = stage + kNumStages - 1; next < count) load_weight(next), load_rows(next);
    end_copies();
    wait_for_mma();
  }

  // Part p sums the rows from p * rows_per_part on, in `sums` [parts][rows_per_part][kPitch]. Two adjacent lanes
  // exchange numbers, so that each writes four numbers of one tile.
  wait_for_copies<0>();
  __syncthreads();  // the stages are not read any more
  float* const own_sums = reinterpret_cast<float*>(shared_bytes);
  const int lane = threadIdx.x % 32, odd = lane % 2, offset = 4 * (lane % 4 / 2);
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    float* const to = own_sums + (threadIdx.x / 32 * 16 + lane / 4 + 8 * side) * kPitch + odd * 8 + offset;
#pragma unroll
    for (int tile = 0; tile < kOutputs / 8; tile += 2) {
      const float* const two = sum + tile * 4 + side * 2;
      const auto from_neighbour = [&](int i) { return __shfl_xor_sync(~0u, odd ? two[i] : two[4 + i], 1); };
      const float first = from_neighbour(0), second = from_neighbour(1);
      *reinterpret_cast<float4*>(to + tile * 8) =
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
    Four<T> four;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float x = with_bias(value[j], column + j);
      four.of[j] = gated ? gated_value<T>(x, with_bias(up[j], width + column + j)) : from_float<T>(x);
    }
    *reinterpret_cast<Four<T>*>(y + static_cast<long long>(part * rows_per_part + row) * width + column) = four;
  }
  if constexpr (!single) cluster.barrier_wait();  // a block may not exit before its copies have arrived
#endif
}

template <class T, int kOutputs, bool gated, bool single>
void launch_gemm(const GemmArguments& arguments, int tiles, int parts, void* y, void* stream) {
  constexpr int kStageBytes = kStages<single> * kStage<kOutputs> * static_cast<int>(sizeof(T)),
                kBytes = single ? std::max(kStageBytes, kSumBytes<kOutputs>) : kStageBytes + kSumBytes<kOutputs>;
  const auto kernel = skinny_gemm_kernel<T, kOutputs, gated, single>;
  allow_shared_bytes(kernel, kBytes);
  launch_in_clusters(kernel, dim3(static_cast<unsigned int>(parts), static_cast<unsigned int>(tiles)), parts, kThreads,
                     kBytes, stream, static_cast<const T*>(arguments.x), arguments.stride,
                     static_cast<const T*>(arguments.weight), static_cast<const T*>(arguments.added.x),
                     static_cast<const T*>(arguments.added.weight), static_cast<const T*>(arguments.bias),
                     static_cast<int>(arguments.rows), static_cast<int>(arguments.inputs),
                     static_cast<int>(arguments.added.inputs), static_cast<int>(arguments.outputs), static_cast<T*>(y));
}

/// Uses the narrowest tiles of which there is at most one per multiprocessor, then splits the inputs over the remaining
/// multiprocessors.
template <class T, bool gated>
void launch_gemm(const GemmArguments& arguments, void* y, void* stream) {
  const int processors = multiprocessors();
  const auto try_width = [&]<int kOutputs>(std::integral_constant<int, kOutputs>, bool is_last) {
    const int tiles = static_cast<int>((arguments.outputs + kOutputs - 1) / kOutputs);
    if (tiles > processors && !is_last) return false;
    const int parts = std::min<int>({kMaxParts, std::max(1, processors / tiles),
                                     static_cast<int>(arguments.inputs + arguments.added.inputs) / kDepth});
    const auto launch_tiles =
        parts == 1 ? launch_gemm<T, kOutputs, gated, true> : launch_gemm<T, kOutputs, gated, false>;
    launch_tiles(arguments, tiles, parts, y, stream);
    return true;
  };
  if (try_width(std::integral_constant<int, 64>(), false)) return;
  if (try_width(std::integral_constant<int, 80>(), false)) return;
  if (try_width(std::integral_constant<int, 96>(), false)) return;
  try_width(std::integral_constant<int, 128>(), true);
}

template <bool gated>
int launch_gemm(const GemmArguments& arguments, void* y, void* stream) {
  if (arguments.rows == 0 || arguments.outputs == 0) return 0;
  for_type(arguments.type, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, float>) launch_gemm<T, gated>(arguments, y, stream);
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace

bool supports_skinny_gemm(const GemmArguments& arguments) {
  const auto aligned = [](const void* begin) { return reinterpret_cast<uintptr_t>(begin) % 16 == 0; };
  return arguments.type != FloatType::kFloat32 && arguments.rows <= kMaxRows && arguments.inputs % kDepth == 0 &&
         arguments.outputs % 8 == 0 && arguments.stride % kChunk == 0 && aligned(arguments.x) &&
         aligned(arguments.weight) && arguments.added.inputs % kDepth == 0 && aligned(arguments.added.x) &&
         aligned(arguments.added.weight) && KEEL_HOPPER && is_hopper();
}

int skinny_gemm(const GemmArguments& arguments, void* y, void* stream) {
  return launch_gemm<false>(arguments, y, stream);
}

int skinny_gemm_swiglu(const GemmArguments& arguments, void* y, void* stream) {
  return launch_gemm<true>(arguments, y, stream);
}

}  // namespace keel::cuda
