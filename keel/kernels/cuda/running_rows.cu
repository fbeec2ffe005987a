#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/running_rows.h"

namespace keel::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void advance_kernel(RunningRowPointers running, DrawnRowPointers drawn) {
  wait_for_what_was_queued();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < running.count) advance_row(running, drawn, i);
}

}  // namespace

int advance_rows(const RunningRowPointers& running, const DrawnRowPointers& drawn, void* stream) {
  if (running.count == 0) return 0;
  const auto blocks = static_cast<unsigned int>((running.count + kThreads - 1) / kThreads);
  launch(advance_kernel, dim3(blocks), kThreads, 0, stream, running, drawn);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
