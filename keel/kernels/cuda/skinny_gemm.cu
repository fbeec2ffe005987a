#include "keel/kernels/cuda/skinny_gemm.cuh"

// 1 if this file is compiled for sm_90a.
#ifndef KEEL_HOPPER
#define KEEL_HOPPER 0
#endif

namespace keel::cuda {
namespace {

constexpr int64_t kMaxAdapterRows = 256;
/// Larger products of more than kGroupRows rows are limited by the tensor cores, for which cuBLAS is faster.
constexpr int64_t kMaxProducts = int64_t{1} << 32;

/// Uses the narrowest tiles of which there is at most one per multiprocessor.
template <class T, bool gated>
void launch_without_adapter(const GemmArguments& arguments, void* y, void* stream) {
  constexpr int kRows = kGroupRows;
  if (launch_skinny_gemm<T, kRows, 64, 0, gated>(arguments, /*must=*/false, y, stream)) return;
  if (launch_skinny_gemm<T, kRows, 80, 0, gated>(arguments, /*must=*/false, y, stream)) return;
  if (launch_skinny_gemm<T, kRows, 96, 0, gated>(arguments, /*must=*/false, y, stream)) return;
  launch_skinny_gemm<T, kRows, 128, 0, gated>(arguments, /*must=*/true, y, stream);
}

template <bool gated>
int launch_gemm(const GemmArguments& arguments, void* y, void* stream) {
  if (arguments.rows == 0 || arguments.outputs == 0) return 0;
  if (arguments.added.a)
    launch_with_adapter(arguments, gated, y, stream);
  else
    for_type(arguments.type, [&]<class T>(T*) {
      if constexpr (!std::is_same_v<T, float>) launch_without_adapter<T, gated>(arguments, y, stream);
    });
  return static_cast<int>(cudaGetLastError());
}

bool supports_rows(const GemmArguments& arguments) {
  if (arguments.rows <= kGroupRows) return true;
  return arguments.added.a && arguments.rows <= kMaxAdapterRows &&
         arguments.rows * arguments.inputs * arguments.outputs <= kMaxProducts;
}

bool supports_rank(const AddedGemm& added) {
  return added.a ? added.rank <= kMaxFusedRank && added.rank % kChunk == 0 : added.rank % kDepth == 0;
}

}  // namespace

bool supports_skinny_gemm(const GemmArguments& arguments) {
  const auto aligned = [](const void* begin) { return reinterpret_cast<uintptr_t>(begin) % 16 == 0; };
  const AddedGemm& added = arguments.added;
  return arguments.type != FloatType::kFloat32 && supports_rows(arguments) && supports_rank(added) &&
         arguments.inputs % kDepth == 0 && arguments.outputs % 8 == 0 && arguments.stride % kChunk == 0 &&
         aligned(arguments.x) && aligned(arguments.weight) && aligned(added.a) && aligned(added.u) &&
         aligned(added.b) && KEEL_HOPPER && is_hopper();
}

int skinny_gemm(const GemmArguments& arguments, void* y, void* stream) {
  return launch_gemm<false>(arguments, y, stream);
}

int skinny_gemm_swiglu(const GemmArguments& arguments, void* y, void* stream) {
  return launch_gemm<true>(arguments, y, stream);
}

}  // namespace keel::cuda
