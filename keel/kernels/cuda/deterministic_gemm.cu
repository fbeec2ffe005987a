#include "keel/kernels/cuda/gemm.h"
#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/tensor_cores.cuh"

// A block of threads takes a tile of rows and outputs through all inputs. Whatever the tile's size, a number is the sum
// of products of 16 inputs at a time, one after the other, by the same instruction: so the size may follow the number
// of rows, few in sampling and many in training.

namespace keel::cuda {
namespace {

/// Four matrices of [8 rows x 16 bytes], a lane's row each, to the lanes as the tensor cores want them.
__device__ void load_four(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

/// Lines of `inputs` numbers, of which a stage's chunks go to shared memory; beyond their end they are 0.
template <class T>
struct Lines {
  const T* begin;
  long long count, stride;
  int inputs;
  bool by_chunks;  // all of them begin at 16 bytes

  __device__ void copy(T* to, long long line, int input) const {
    const bool there = line < count;
    const T* const from = begin + (there ? line : 0) * stride;
    if (by_chunks) {
      const bool inside = there && input < inputs;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                   "l"(from + (inside ? input : 0)), "r"(inside ? 16 : 0));
      return;
    }
    for (int i = 0; i < kChunk; ++i) to[i] = there && input + i < inputs ? from[input + i] : from_float<T>(0.0f);
  }
};

template <class T>
struct Operands {
  Lines<T> rows, weight;
};

/// kRows and kOutputs of a tile, by 2 x kAcross warps, and how many stages of inputs are on their way.
template <int kRows_, int kOutputs_, int kAcross_, int kStages_>
struct Tile {
  static constexpr int kRows = kRows_, kOutputs = kOutputs_, kAcross = kAcross_, kStages = kStages_;
  static constexpr int kThreads = 2 * kAcross * 32, kStage = (kRows + kOutputs) * kDepth;
  static constexpr int kDown = kRows / 2 / 16, kBeside = kOutputs / kAcross / 8;  // products of a warp
  static_assert(kDown >= 1 && kBeside % 2 == 0);
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
          from.rows.copy(to + chunk_place(line, chunk), first_row + line, input);
        else
          from.weight.copy(to + chunk_place(line, chunk), first_output + line - Shape::kRows, input);
      }
    }
    asm volatile("cp.async.commit_group;");
  };
  for (int stage = 0; stage < Shape::kStages - 1; ++stage) load(stage);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / Shape::kAcross * (Shape::kRows / 2), output = warp % Shape::kAcross * (Shape::kBeside * 8);
  float sum[Shape::kDown][Shape::kBeside][4] = {};
  for (int stage = 0; stage < count; ++stage) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kStages - 2));
    __syncthreads();
    load(stage + Shape::kStages - 1);
    const T* const tile = stages + stage % Shape::kStages * Shape::kStage;
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      uint32_t left[Shape::kDown][4], right[Shape::kBeside / 2][4];
#pragma unroll
      for (int i = 0; i < Shape::kDown; ++i)
        load_four(left[i], tile + chunk_place(row + i * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
      for (int j = 0; j < Shape::kBeside / 2; ++j)
        load_four(right[j], tile + chunk_place(Shape::kRows + output + j * 16 + lane % 8 + lane / 16 * 8,
                                               2 * step + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < Shape::kDown; ++i)
#pragma unroll
        for (int j = 0; j < Shape::kBeside; ++j)
          multiply_add(sum[i][j], left[i], make_uint2(right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]), tile);
    }
  }

  const long long outputs = from.weight.count;
  struct alignas(2 * sizeof(Out)) Two {
    Out of[2];
  };
#pragma unroll
  for (int i = 0; i < Shape::kDown; ++i)
#pragma unroll
    for (int j = 0; j < Shape::kBeside; ++j)
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const long long at = first_row + row + i * 16 + side * 8 + lane / 4,
                        column = first_output + output + j * 8 + lane % 4 * 2;
        if (at >= from.rows.count || column >= outputs) continue;
        Out* const to = y + at * outputs + column;
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
void start(const Operands<T>& from, Out* y, void* stream) {
  constexpr size_t kBytes = Shape::kStages * Shape::kStage * sizeof(T);
  const auto kernel = deterministic_gemm_kernel<Shape, T, Out>;
  allow_shared_bytes(kernel, kBytes);
  const auto tiles = [](long long all, int each) { return static_cast<unsigned int>((all + each - 1) / each); };
  launch(kernel, dim3(tiles(from.rows.count, Shape::kRows), tiles(from.weight.count, Shape::kOutputs)), Shape::kThreads,
         kBytes, stream, from, y);
}

/// The largest tiles of which every multiprocessor has one.
template <class T, class Out>
void start(const Operands<T>& from, Out* y, void* stream) {
  const auto tiles = [&](int side) {
    return (from.rows.count + side - 1) / side * ((from.weight.count + side - 1) / side);
  };
  const int processors = multiprocessors();
  if (tiles(128) >= processors)
    start<Tile<128, 128, 4, 3>>(from, y, stream);
  else if (tiles(64) >= processors)
    start<Tile<64, 64, 2, 5>>(from, y, stream);
  else
    start<Tile<32, 32, 2, 8>>(from, y, stream);
}

}  // namespace

int deterministic_gemm(const GemmArguments& product, bool wide, void* y, void* stream) {
  if (product.type == FloatType::kFloat32) return static_cast<int>(cudaErrorInvalidValue);
  if (product.rows == 0 || product.outputs == 0) return 0;
  for_type(product.type, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, float>) {
      const int inputs = static_cast<int>(product.inputs);
      const auto lines = [&](const void* begin, int64_t count, int64_t stride) {
        const bool by_chunks =
            reinterpret_cast<uintptr_t>(begin) % 16 == 0 && stride % kChunk == 0 && inputs % kChunk == 0;
        return Lines<T>{static_cast<const T*>(begin), count, stride, inputs, by_chunks};
      };
      const Operands<T> from{lines(product.x, product.rows, product.stride),
                             lines(product.weight, product.outputs, inputs)};
      wide ? start(from, static_cast<float*>(y), stream) : start(from, static_cast<T*>(y), stream);
    }
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
