#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// A CUDA graph: captures GPU work once and replays it with one launch, always in the same memory.
class CudaGraph {
 public:
  /// Returns whether work on this device can be captured.
  static bool is_supported(at::Device device);

  /// Captures the work that `work` launches, without running it. `work` must not synchronise with the device, and the
  /// device must have run such work before. Tensors that `work` creates are overwritten by the next replay of this
  /// graph or of one that shares its memory. `memory_owner`: a graph whose memory is shared; the two must never run at
  /// the same time.
  explicit CudaGraph(const std::function<void()>& work, const CudaGraph* memory_owner = nullptr);
  ~CudaGraph();
  CudaGraph(CudaGraph&&) noexcept;

  void replay();

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

/// Held during every capture. A thread that releases cached device memory must hold it, too.
std::mutex& cuda_graph_mutex();

}  // namespace keel
