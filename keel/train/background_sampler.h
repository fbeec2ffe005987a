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

/// Samples batches on a thread of its own while others are trained on: one after the other, in the order of the
/// requests, each with weights that do not change any more. So a batch has the same weights whichever thread is faster;
/// where no thread can be started, take() samples. It owns the thread and the position that sampling has reached, and
/// borrows the sampler.
class BackgroundSampler {
 public:
  /// The sampler must outlive it. While batches are requested, only the thread uses the sampler.
  BackgroundSampler(BatchSampler& sampler, at::Device device, int64_t threads);
  /// Cancels the batch that is being sampled.
  ~BackgroundSampler();
  BackgroundSampler(const BackgroundSampler&) = delete;
  BackgroundSampler& operator=(const BackgroundSampler&) = delete;

  /// The next batch to be requested begins at this position of the prompt stream. Not while batches are requested.
  void seek(uint64_t position) { position_ = position; }

  /// Requests a batch; the meters show its progress when its turn comes.
  void request(const SamplerWeights& weights, uint64_t policy_version, std::shared_ptr<StepMeters> meters);

  /// Batches that were requested and not taken.
  size_t count() const { return requested_.size(); }

  /// Waits for the oldest requested batch. If it failed, throws its error and drops the later ones, whose position is
  /// not known then.
  RolloutBatch take();

 private:
  using Task = std::packaged_task<RolloutBatch()>;
  void work(at::Device device, int64_t threads);

  BatchSampler& sampler_;
  at::Device device_;
  uint64_t position_ = 0;                            // of the next batch; the thread that samples uses it
  std::deque<std::future<RolloutBatch>> requested_;  // of the thread that requests
  std::mutex mutex_;                                 // for all below
  std::condition_variable changed_;
  std::deque<Task> queued_;
  bool cancelled_ = false;  // a batch has failed: later ones are not begun
  bool ended_ = false;
  bool warned_ = false;  // that no thread could be started
  std::vector<std::jthread> thread_;
};

}  // namespace keel
