#include "keel/ops/cuda_graph.h"

#include "keel/core/error.h"

#ifdef KEEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace keel {

#ifdef KEEL_HAS_CUDA

struct CudaGraph::Graph {
  at::cuda::CUDAGraph graph;
};

bool CudaGraph::is_supported(at::Device device) { return device.is_cuda(); }

CudaGraph::CudaGraph(const std::function<void()>& work, const CudaGraph* neighbour)
    : graph_(std::make_unique<Graph>()) {
  // A stream of its own, since the default one cannot be recorded: one for all that this thread records, so that cuBLAS
  // takes memory for it once. Of those with a high priority, among which no other thread has the one that it works on.
  static thread_local const c10::cuda::CUDAStream recording = c10::cuda::getStreamFromPool(/*isHighPriority=*/true);
  const std::scoped_lock lock(cuda_graph_mutex());
  const c10::cuda::CUDAStreamGuard guard(recording);
  // What is recorded gets memory of its own, and none can be given back meanwhile.
  constexpr size_t kEnough = size_t{4} << 30;
  size_t left = 0, all = 0;
  if (cudaMemGetInfo(&left, &all) != cudaSuccess || left < kEnough) c10::cuda::CUDACachingAllocator::emptyCache();
  graph_->graph.capture_begin(neighbour ? neighbour->graph_->graph.pool() : c10::MempoolId_t{0, 0},
                              cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {  // or nobody could record or give memory back any more
    try {
      graph_->graph.capture_end();
    } catch (const std::exception&) {  // what was thrown first says why
    }
    throw;
  }
  graph_->graph.capture_end();
}

void CudaGraph::queue() { graph_->graph.replay(); }

#else

struct CudaGraph::Graph {};

bool CudaGraph::is_supported(at::Device) { return false; }

CudaGraph::CudaGraph(const std::function<void()>&, const CudaGraph*) {
  fail(ExitCode::kInternal, "this build has no CUDA kernels, and nothing to record");
}

void CudaGraph::queue() {}

#endif

std::mutex& cuda_graph_mutex() {
  static std::mutex one;
  return one;
}

CudaGraph::~CudaGraph() = default;
CudaGraph::CudaGraph(CudaGraph&&) noexcept = default;

}  // namespace keel
