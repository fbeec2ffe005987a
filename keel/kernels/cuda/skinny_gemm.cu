#include "keel/kernels/cuda/gemm.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/warpgroup_mma.cuh"

// 1 where this file is compiled with Hopper's own instructions.
#ifndef KEEL_HOPPER
#define KEEL_HOPPER 0
#endif

// A block of threads takes a tile of outputs and, with the others of its cluster, a part of the inputs; each of them
// adds up the parts of some rows, in their order. So a row's result does not depend on other rows. The weights depend
// on nothing that was queued before, so that they are asked for before the kernel waits for it.

namespace keel::cuda {
namespace {

constexpr int kThreads = 128, kMostRows = 64;
constexpr int kMostParts = 8;  // the most blocks that a cluster may have everywhere
constexpr int kPad = 4;

__device__ void copy_chunk(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}
__device__ void end_copies() { asm volatile("cp.async.commit_group;"); }
template <int kNewer>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewer));
}

// Numbers sent to another block of the cluster, and a block's wait for those that are sent to it.

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

/// So many that a multiprocessor holds two blocks, of which one asks for the next kernel's weights while the other
/// ends. Room for the sums of others is beside them, as those arrive while a block still multiplies.
template <bool alone>
constexpr int kStages = alone ? 6 : 5;
template <int kWide>
constexpr int kStage = (kWide + kMostRows) * kDepth;
template <int kWide>
constexpr int kSumBytes = (kMostRows + kMostParts) * (kWide + kPad) * static_cast<int>(sizeof(float));

template <class T, int kWide, bool gated, bool alone>
__global__ void __launch_bounds__(kThreads) skinny_gemm_kernel(const T* x, long long stride, const T* weight,
                                                               const T* bias, int rows, int inputs, int outputs, T* y) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kAhead = kStages<alone>, kSize = kStage<kWide>, kPitch = kWide + kPad, kLoaded = kThreads / kChunks;
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  __shared__ uint64_t arrived;
  T* const stages = reinterpret_cast<T*>(shared_bytes);
  float* const sums = reinterpret_cast<float*>(shared_bytes + (alone ? 0 : kAhead * kSize * sizeof(T)));
  allow_next_kernel();
  namespace groups = cooperative_groups;
  const groups::cluster_group cluster = groups::this_cluster();
  const int part = alone ? 0 : blockIdx.x, parts = alone ? 1 : gridDim.x, all = inputs / kDepth;
  constexpr int kRowBytes = kPitch * static_cast<int>(sizeof(float));
  const int most_rows = (rows + parts - 1) / parts;  // that one part adds up
  const auto rows_of = [&](int which) { return max(0, min(most_rows, rows - which * most_rows)); };
  const int own_rows = rows_of(part);
  if constexpr (!alone) {
    if (threadIdx.x == 0) expect_bytes(&arrived, own_rows * parts * kRowBytes);
    cluster.barrier_arrive();
  }
  const int begin = all * part / parts, count = all * (part + 1) / parts - begin;
  const int line = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;  // of what this thread copies
  // Of 16 outputs of a gated product 8 are gates and the other 8 what those let through.
  constexpr int kColumns = gated ? kWide / 2 : kWide, kStep = gated ? kLoaded / 2 : kLoaded;
  const int width = gated ? outputs / 2 : outputs, first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int first_output = first_column + (gated ? line % 8 : line), shift = gated && line >= 8 ? width : 0;
  const T* const from_weight =
      weight + static_cast<long long>(first_output + shift) * inputs + begin * kDepth + chunk * kChunk;
  const T* const from_rows = x + line * stride + begin * kDepth + chunk * kChunk;
  const auto load_weight = [&](int stage) {
    T* const to = stages + stage % kAhead * kSize + kMostRows * kDepth;
#pragma unroll
    for (int i = 0; i < kWide / kLoaded; ++i)
      if (first_output + i * kStep < width)
        copy_chunk(to + chunk_place(line + i * kLoaded, chunk),
                   from_weight + static_cast<long long>(i * kStep) * inputs + stage * kDepth);
  };
  const auto load_rows = [&](int stage) {
    T* const to = stages + stage % kAhead * kSize;
#pragma unroll
    for (int i = 0; i < kMostRows / kLoaded; ++i)
      if (line + i * kLoaded < rows)
        copy_chunk(to + chunk_place(line + i * kLoaded, chunk), from_rows + i * kLoaded * stride + stage * kDepth);
  };
  for (int stage = 0; stage < min(kAhead - 1, count); ++stage) load_weight(stage);
  wait_for_previous_kernel();
  for (int stage = 0; stage < kAhead - 1; ++stage) {
    if (stage < count) load_rows(stage);
    end_copies();
  }
  float sum[kWide / 2] = {};  // rows and outputs that were not loaded spoil only themselves
  for (int stage = 0; stage < count; ++stage) {
    wait_for_copies<kAhead - 2>();
    show_shared_memory();
    __syncthreads();
    const uint64_t tile = tile_at(stages + stage % kAhead * kSize),
                   weights = tile_at(stages + stage % kAhead * kSize + kMostRows * kDepth);
    begin_products();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) multiply_add(sum, tile + 2 * step, weights + 2 * step, x);
    end_products();
    if (const int next = stage + kAhead - 1; next < count) load_weight(next), load_rows(next);
    end_copies();
    wait_for_products();
  }

  // A part adds up the rows from part * most_rows on: there sums holds [parts][most_rows][kPitch]. Of two tiles a lane
  // and its neighbour take one each, four numbers at once.
  wait_for_copies<0>();
  __syncthreads();  // nobody needs the stages any more
  float* const mine = reinterpret_cast<float*>(shared_bytes);
  const int lane = threadIdx.x % 32, odd = lane % 2, place = 4 * (lane % 4 / 2);
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    float* const to = mine + (threadIdx.x / 32 * 16 + lane / 4 + 8 * side) * kPitch + odd * 8 + place;
#pragma unroll
    for (int tile = 0; tile < kWide / 8; tile += 2) {
      const float* const two = sum + tile * 4 + side * 2;
      const auto theirs = [&](int i) { return __shfl_xor_sync(~0u, odd ? two[i] : two[4 + i], 1); };
      const float first = theirs(0), second = theirs(1);
      *reinterpret_cast<float4*>(to + tile * 8) =
          odd ? make_float4(first, second, two[4], two[5]) : make_float4(two[0], two[1], first, second);
    }
  }
  if constexpr (!alone) show_shared_memory();
  __syncthreads();
  if constexpr (!alone) {
    cluster.barrier_wait();
    const int to = threadIdx.x, bytes = to < parts ? rows_of(to) * kRowBytes : 0;
    if (bytes > 0)
      send(cluster.map_shared_rank(sums + part * most_rows * kPitch, to), mine + to * most_rows * kPitch, bytes,
           cluster.map_shared_rank(&arrived, to));
    wait_for_bytes(&arrived);
    cluster.barrier_arrive();
  }
  constexpr int kFours = kColumns / 4;
  const auto with_bias = [&](float value, int output) { return bias ? value + to_float(bias[output]) : value; };
#pragma unroll(alone ? 5 : 1)
  for (int i = threadIdx.x; i < own_rows * kFours; i += kThreads) {
    const int row = i / kFours, at = i % kFours * 4, column = first_column + at;
    if (column >= width) continue;
    const auto total = [&](int from) {
      float4 result = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int p = 0; p < (alone ? 1 : kMostParts); ++p)
        if (p < parts) {
          const float4 some = *reinterpret_cast<const float4*>(sums + (p * most_rows + row) * kPitch + from);
          result.x += some.x, result.y += some.y, result.z += some.z, result.w += some.w;
        }
      return result;
    };
    const int from = gated ? at / 8 * 16 + at % 8 : at;
    const float4 first = total(from), second = gated ? total(from + 8) : first;
    const float value[4] = {first.x, first.y, first.z, first.w}, up[4] = {second.x, second.y, second.z, second.w};
    Four<T> four;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float x = with_bias(value[j], column + j);
      four.of[j] = gated ? gated_value<T>(x, with_bias(up[j], width + column + j)) : from_float<T>(x);
    }
    *reinterpret_cast<Four<T>*>(y + static_cast<long long>(part * most_rows + row) * width + column) = four;
  }
  if constexpr (!alone) cluster.barrier_wait();  // nobody leaves before what it sent has arrived
#endif
}

template <class T, int kWide, bool gated, bool alone>
void start(const GemmArguments& product, int tiles, int parts, void* y, void* stream) {
  constexpr int kStageBytes = kStages<alone> * kStage<kWide> * static_cast<int>(sizeof(T)),
                kBytes = alone ? std::max(kStageBytes, kSumBytes<kWide>) : kStageBytes + kSumBytes<kWide>;
  const auto kernel = skinny_gemm_kernel<T, kWide, gated, alone>;
  allow_shared_bytes(kernel, kBytes);
  launch_in_clusters(kernel, dim3(static_cast<unsigned int>(parts), static_cast<unsigned int>(tiles)), parts, kThreads,
                     kBytes, stream, static_cast<const T*>(product.x), product.stride,
                     static_cast<const T*>(product.weight), static_cast<const T*>(product.bias),
                     static_cast<int>(product.rows), static_cast<int>(product.inputs),
                     static_cast<int>(product.outputs), static_cast<T*>(y));
}

/// Tiles as narrow as leave no multiprocessor two of them, then parts for those that are left.
template <class T, bool gated>
void start(const GemmArguments& product, void* y, void* stream) {
  const int processors = multiprocessors();
  const auto with = [&]<int kWide>(std::integral_constant<int, kWide>, bool last) {
    const int tiles = static_cast<int>((product.outputs + kWide - 1) / kWide);
    if (tiles > processors && !last) return false;
    const int parts =
        std::min<int>({kMostParts, std::max(1, processors / tiles), static_cast<int>(product.inputs) / kDepth});
    const auto start_it = parts == 1 ? start<T, kWide, gated, true> : start<T, kWide, gated, false>;
    start_it(product, tiles, parts, y, stream);
    return true;
  };
  if (with(std::integral_constant<int, 64>(), false)) return;
  if (with(std::integral_constant<int, 80>(), false)) return;
  if (with(std::integral_constant<int, 96>(), false)) return;
  with(std::integral_constant<int, 128>(), true);
}

template <bool gated>
int start(const GemmArguments& product, void* y, void* stream) {
  if (product.rows == 0 || product.outputs == 0) return 0;
  for_type(product.type, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, float>) start<T, gated>(product, y, stream);
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace

bool supports_skinny_gemm(const GemmArguments& product) {
  const auto aligned = [](const void* begin) { return reinterpret_cast<uintptr_t>(begin) % 16 == 0; };
  return product.type != FloatType::kFloat32 && product.rows <= kMostRows && product.inputs % kDepth == 0 &&
         product.outputs % 8 == 0 && product.stride % kChunk == 0 && aligned(product.x) && aligned(product.weight) &&
         KEEL_HOPPER && is_hopper();
}

int skinny_gemm(const GemmArguments& product, void* y, void* stream) { return start<false>(product, y, stream); }

int skinny_gemm_swiglu(const GemmArguments& product, void* y, void* stream) { return start<true>(product, y, stream); }

}  // namespace keel::cuda
