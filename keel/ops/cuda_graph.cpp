#include "keel/ops/cuda_graph.h"

#include "keel/core/error.h"

#ifdef KEEL_HAS_CUDA
#include <ATen/ATen.h>
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

CudaGraph::CudaGraph(const std::function<void()>& work, const CudaGraph* memory_owner)
    : graph_(std::make_unique<Graph>()) {
  // The default stream cannot be captured. Each thread captures on one stream, so that cuBLAS allocates its workspace
  // once. No thread computes on a high-priority stream, so the pool cannot return one that is in use.
  static thread_local const c10::cuda::CUDAStream capture_stream = [] {
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/true);
    const c10::cuda::CUDAStreamGuard guard(stream);
    // cuBLAS cannot create its handle during a capture, and this thread may not have needed one.
    const Tensor one = at::ones({1, 1}, at::kCUDA);
    at::mm(one, one);
    return stream;
  }();
  const std::scoped_lock lock(cuda_graph_mutex());
  const c10::cuda::CUDAStreamGuard guard(capture_stream);
  // A graph allocates from its own pool, and cached memory cannot be released during a capture.
  constexpr size_t kMinFree = size_t{4} << 30;
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess || free < kMinFree) c10::cuda::CUDACachingAllocator::emptyCache();
  graph_->graph.capture_begin(memory_owner ? memory_owner->graph_->graph.pool() : c10::MempoolId_t{0, 0},
                              cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {  // An unfinished capture would block all later captures and releases of memory.
    try {
      graph_->graph.capture_end();
    } catch (const std::exception&) {  // The first exception is the cause.
    }
    throw;
  }
  graph_->graph.capture_end();
}

void CudaGraph::replay() { graph_->graph.replay(); }

/// Gives the memory back. The allocator would keep it until the device is full, although no later graph can use it.
CudaGraph::~CudaGraph() {
  if (graph_ == nullptr) return;
  const std::scoped_lock lock(cuda_graph_mutex());
  try {
    const c10::MempoolId_t pool = graph_->graph.pool();
    c10::cuda::getCurrentCUDAStream().synchronize();
    graph_.reset();
    c10::cuda::CUDACachingAllocator::emptyCache(pool);  // does nothing while another graph shares the memory
  } catch (const std::exception&) {                     // The device has failed, which the next call on it reports.
  }
}

#else

struct CudaGraph::Graph {};

bool CudaGraph::is_supported(at::Device) { return false; }

CudaGraph::CudaGraph(const std::function<void()>&, const CudaGraph*) {
  fail(ExitCode::kInternal, "this build has no CUDA kernels, so it cannot capture a CUDA graph");
}

void CudaGraph::replay() {}

CudaGraph::~CudaGraph() = default;

#endif

std::mutex& cuda_graph_mutex() {
  static std::mutex mutex;
  return mutex;
}

CudaGraph::CudaGraph(CudaGraph&&) noexcept = default;

}  // namespace keel
