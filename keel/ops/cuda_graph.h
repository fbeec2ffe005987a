#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// GPU work that is recorded once (a CUDA graph) and queued by one call any number of times, in the same memory.
class CudaGraph {
 public:
  /// Whether work of this device can be recorded.
  static bool is_supported(at::Device device);

  /// Records what `work` queues, without doing it. It must not wait for the device, must keep no tensor that it makes
  /// but those that are read before anything recorded is queued again, and the device must have done such work before.
  /// `neighbour`: work that is never done at the same time, whose memory is used for this too.
  explicit CudaGraph(const std::function<void()>& work, const CudaGraph* neighbour = nullptr);
  ~CudaGraph();
  CudaGraph(CudaGraph&&) noexcept;

  void queue();

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

/// Held while work is recorded, by whatever thread. A device's cached memory may be given back under it alone.
std::mutex& cuda_graph_mutex();

}  // namespace keel
