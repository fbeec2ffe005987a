#include "keel/kernels/cuda/skinny_gemm.cuh"

// Skinny GEMMs with a LoRA adapter.

namespace keel::cuda {
namespace {

/// Uses the narrowest tiles of which there is at most one per multiprocessor.
template <class T, int kRank, bool gated>
void launch_narrowest(const GemmArguments& arguments, void* y, void* stream) {
  if (arguments.rows > kGroupRows) {
    constexpr int kRows = 2 * kGroupRows;
    if constexpr (gated) {
      if (launch_skinny_gemm<T, kRows, 128, kRank, gated>(arguments, /*must=*/false, y, stream)) return;
      if (launch_skinny_gemm<T, kRows, 160, kRank, gated>(arguments, /*must=*/false, y, stream)) return;
    }
    launch_skinny_gemm<T, kRows, 128, kRank, gated>(arguments, /*must=*/true, y, stream);
    return;
  }
  if (launch_skinny_gemm<T, kGroupRows, 64, kRank, gated>(arguments, /*must=*/false, y, stream)) return;
  if constexpr (gated)
    if (launch_skinny_gemm<T, kGroupRows, 80, kRank, gated>(arguments, /*must=*/false, y, stream)) return;
  launch_skinny_gemm<T, kGroupRows, 128, kRank, gated>(arguments, /*must=*/true, y, stream);
}

/// Chooses the rank of the tile. The kernel sets the additional ranks to 0.
template <class T>
void launch_with_rank(const GemmArguments& arguments, bool gated, void* y, void* stream) {
  const int64_t rank = arguments.added.rank;
  if (gated) return (rank <= 32 ? launch_narrowest<T, 32, true> : launch_narrowest<T, 64, true>)(arguments, y, stream);
  if (rank <= 16) return launch_narrowest<T, 16, false>(arguments, y, stream);
  if (rank <= 32) return launch_narrowest<T, 32, false>(arguments, y, stream);
  return (rank <= 48 ? launch_narrowest<T, 48, false> : launch_narrowest<T, 64, false>)(arguments, y, stream);
}

}  // namespace

void launch_with_adapter(const GemmArguments& arguments, bool gated, void* y, void* stream) {
  for_type(arguments.type, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, float>) launch_with_rank<T>(arguments, gated, y, stream);
  });
}

}  // namespace keel::cuda
