#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/train/batch_sampler.h"
#include "keel/train/step_watcher.h"

namespace keel {

/// Samples batches on a background thread during training: one at a time, in the order of the requests, each with
/// frozen weights, so that timing does not change the result. If no thread can be started, take() samples. It owns the
/// thread and the position in the prompt stream, and borrows the sampler.
class BackgroundSampler {
 public:
  /// The sampler must outlive this. While requests are pending, only the background thread uses the sampler.
  BackgroundSampler(BatchSampler& sampler, at::Device device, int64_t threads);
  /// Cancels the batch in progress.
  ~BackgroundSampler();
  BackgroundSampler(const BackgroundSampler&) = delete;
  BackgroundSampler& operator=(const BackgroundSampler&) = delete;

  /// Sets the position in the prompt stream of the next batch. Must not be called while requests are pending.
  void seek(uint64_t position) { position_ = position; }

  /// Queues a request for a batch; the meters show its progress once it is being sampled.
  void request(const SamplerWeights& weights, uint64_t policy_version, std::shared_ptr<StepMeters> meters);

  /// Batches that were requested and not taken yet.
  size_t pending() const { return requested_.size(); }

  /// Waits for the oldest requested batch. If it failed, throws its error and drops the later requests, because their
  /// position in the prompt stream is then unknown.
  RolloutBatch take();

 private:
  using Task = std::packaged_task<RolloutBatch()>;
  void work(at::Device device, int64_t threads);

  BatchSampler& sampler_;
  at::Device device_;
  uint64_t position_ = 0;                            // of the next batch; used by the sampling thread
  std::deque<std::future<RolloutBatch>> requested_;  // used by the requesting thread
  std::mutex mutex_;                                 // guards queued_, cancelled_ and stopping_
  std::condition_variable changed_;
  std::deque<Task> queued_;
  bool cancelled_ = false;  // a batch has failed: later ones are not started
  bool stopping_ = false;
  bool warned_ = false;               // about a thread that could not be started
  std::vector<std::jthread> thread_;  // last, so that it is joined before the members above are destroyed
};

}  // namespace keel
