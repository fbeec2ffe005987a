#include "keel/kernels/cuda/gemm.h"
#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/tensor_cores.cuh"

// A thread block computes a tile of rows and outputs over all inputs. For any tile size, an output accumulates products
// of 16 inputs at a time, in order, by the same instruction. So the tile size can depend on the number of rows, which
// are few in sampling and many in training.

namespace keel::cuda {
namespace {

/// Loads four matrices of [8 rows x 16 bytes] as tensor core operands. Each lane passes the address of one row.
__device__ void load_four(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

/// Rows of a matrix, which are copied to shared memory in chunks. Elements beyond the matrix are 0.
template <class T>
struct MatrixRows {
  const T* begin;
  long long count, stride;
  int inputs;
  bool by_chunks;  // rows are aligned to 16 bytes

  __device__ void copy(T* to, long long line, int input) const {
    const bool exists = line < count;
    const T* const from = begin + (exists ? line : 0) * stride;
    if (by_chunks) {
      const bool inside = exists && input < inputs;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                   "l"(from + (inside ? input : 0)), "r"(inside ? 16 : 0));
      return;
    }
    for (int i = 0; i < kChunk; ++i) to[i] = exists && input + i < inputs ? from[input + i] : from_float<T>(0.0f);
  }
};

template <class T>
struct Operands {
  MatrixRows<T> rows, weight;
};

/// A tile of kRows x kOutputs, computed by 2 x kAcross warps, and the number of pipeline stages.
template <int kRows_, int kOutputs_, int kAcross_, int kStages_>
struct Tile {
  static constexpr int kRows = kRows_, kOutputs = kOutputs_, kAcross = kAcross_, kStages = kStages_;
  static constexpr int kThreads = 2 * kAcross * 32, kStage = (kRows + kOutputs) * kDepth;
  static constexpr int kTilesDown = kRows / 2 / 16, kTilesAcross = kOutputs / kAcross / 8;  // MMA tiles of a warp
  static_assert(kTilesDown >= 1 && kTilesAcross % 2 == 0);
};

template <class Shape, class T, class Out>
__global__ void __launch_bounds__(Shape::kThreads) deterministic_gemm_kernel(Operands<T> from, Out* y) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  T* const stages = reinterpret_cast<T*>(shared_bytes);
  allow_next_kernel();
  wait_for_previous_kernel();
  const long long first_row = static_cast<long long>(blockIdx.x) * Shape::kRows,
                  first_output = static_cast<long long>(blockIdx.y) * Shape::kOutputs;
  const int inputs = from.rows.inputs, count = (inputs + kDepth - 1) / kDepth;
  const auto load = [&](int stage) {
    if (stage < count) {
      T* const to = stages + stage % Shape::kStages * Shape::kStage;
#pragma unroll
      for (int i = threadIdx.x; i < (Shape::kRows + Shape::kOutputs) * kChunks; i += Shape::kThreads) {
        const int line = i / kChunks, chunk = i % kChunks, input = stage * kDepth + chunk * kChunk;
        if (line < Shape::kRows)
          from.rows.copy(to + chunk_offset(line, chunk), first_row + line, input);
        else
          from.weight.copy(to + chunk_offset(line, chunk), first_output + line - Shape::kRows, input);
      }
    }
    asm volatile("cp.async.commit_group;");
  };
  for (int stage = 0; stage < Shape::kStages - 1; ++stage) load(stage);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / Shape::kAcross * (Shape::kRows / 2),
            output = warp % Shape::kAcross * (Shape::kTilesAcross * 8);
  float sum[Shape::kTilesDown][Shape::kTilesAcross][4] = {};
  for (int stage = 0; stage < count; ++stage) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kStages - 2));
    __syncthreads();
    load(stage + Shape::kStages - 1);
    const T* const tile = stages + stage % Shape::kStages * Shape::kStage;
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      uint32_t a[Shape::kTilesDown][4], b[Shape::kTilesAcross / 2][4];
#pragma unroll
      for (int i = 0; i < Shape::kTilesDown; ++i)
        load_four(a[i], tile + chunk_offset(row + i * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
      for (int j = 0; j < Shape::kTilesAcross / 2; ++j)
        load_four(b[j], tile + chunk_offset(Shape::kRows + output + j * 16 + lane % 8 + lane / 16 * 8,
                                            2 * step + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < Shape::kTilesDown; ++i)
#pragma unroll
        for (int j = 0; j < Shape::kTilesAcross; ++j)
          multiply_add(sum[i][j], a[i], make_uint2(b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]), tile);
    }
  }

  const long long outputs = from.weight.count;
  struct alignas(2 * sizeof(Out)) Two {
    Out of[2];
  };
#pragma unroll
  for (int i = 0; i < Shape::kTilesDown; ++i)
#pragma unroll
    for (int j = 0; j < Shape::kTilesAcross; ++j)
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const long long y_row = first_row + row + i * 16 + side * 8 + lane / 4,
                        column = first_output + output + j * 8 + lane % 4 * 2;
        if (y_row >= from.rows.count || column >= outputs) continue;
        Out* const to = y + y_row * outputs + column;
        const Two two{from_float<Out>(sum[i][j][2 * side]), from_float<Out>(sum[i][j][2 * side + 1])};
        if (outputs % 2 == 0)
          *reinterpret_cast<Two*>(to) = two;
        else {
          to[0] = two.of[0];
          if (column + 1 < outputs) to[1] = two.of[1];
        }
      }
}

template <class Shape, class T, class Out>
void launch_gemm(const Operands<T>& from, Out* y, void* stream) {
  constexpr size_t kBytes = Shape::kStages * Shape::kStage * sizeof(T);
  const auto kernel = deterministic_gemm_kernel<Shape, T, Out>;
  allow_shared_bytes(kernel, kBytes);
  const auto tiles = [](long long all, int each) { return static_cast<unsigned int>((all + each - 1) / each); };
  launch(kernel, dim3(tiles(from.rows.count, Shape::kRows), tiles(from.weight.count, Shape::kOutputs)), Shape::kThreads,
         kBytes, stream, from, y);
}

/// Uses the largest tiles of which there is at least one per multiprocessor.
template <class T, class Out>
void launch_gemm(const Operands<T>& from, Out* y, void* stream) {
  const auto tiles = [&](int side) {
    return (from.rows.count + side - 1) / side * ((from.weight.count + side - 1) / side);
  };
  const int processors = multiprocessors();
  if (tiles(128) >= processors)
    launch_gemm<Tile<128, 128, 4, 3>>(from, y, stream);
  else if (tiles(64) >= processors)
    launch_gemm<Tile<64, 64, 2, 5>>(from, y, stream);
  else
    launch_gemm<Tile<32, 32, 2, 8>>(from, y, stream);
}

}  // namespace

int deterministic_gemm(const GemmArguments& arguments, bool float32_result, void* y, void* stream) {
  if (arguments.type == FloatType::kFloat32) return static_cast<int>(cudaErrorInvalidValue);
  if (arguments.rows == 0 || arguments.outputs == 0) return 0;
  for_type(arguments.type, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, float>) {
      const int inputs = static_cast<int>(arguments.inputs);
      const auto matrix_rows = [&](const void* begin, int64_t count, int64_t stride) {
        const bool by_chunks =
            reinterpret_cast<uintptr_t>(begin) % 16 == 0 && stride % kChunk == 0 && inputs % kChunk == 0;
        return MatrixRows<T>{static_cast<const T*>(begin), count, stride, inputs, by_chunks};
      };
      const Operands<T> from{matrix_rows(arguments.x, arguments.rows, arguments.stride),
                             matrix_rows(arguments.weight, arguments.outputs, inputs)};
      float32_result ? launch_gemm(from, static_cast<float*>(y), stream)
                     : launch_gemm(from, static_cast<T*>(y), stream);
    }
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
