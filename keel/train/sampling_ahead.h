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
class SamplingAhead {
 public:
  /// The sampler must outlive it, and is this thread's alone as long as batches are waited for.
  SamplingAhead(BatchSampler& sampler, at::Device device, int64_t threads);
  /// Gives up what is being sampled.
  ~SamplingAhead();
  SamplingAhead(const SamplingAhead&) = delete;
  SamplingAhead& operator=(const SamplingAhead&) = delete;

  /// The next batch to be asked for begins at this position of the prompt stream. Not while batches are waited for.
  void seek(uint64_t position) { position_ = position; }

  /// The meters say how far it is, when it is its turn.
  void ask_for(const CausalLm& weights, uint64_t policy_version, std::shared_ptr<StepMeters> meters);

  /// Batches that were asked for and not taken.
  size_t count() const { return asked_for_.size(); }

  /// Waits for the oldest of them. What it failed with is thrown here; those behind it are forgotten then, for where
  /// they would begin is not known.
  RolloutBatch take();

 private:
  using Task = std::packaged_task<RolloutBatch()>;
  void work(at::Device device, int64_t threads);

  BatchSampler& sampler_;
  at::Device device_;
  uint64_t position_ = 0;                            // of the next batch; of the thread that samples
  std::deque<std::future<RolloutBatch>> asked_for_;  // of whoever asks
  std::mutex mutex_;                                 // for all below
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  bool given_up_ = false;  // one has failed: those behind it are not begun
  bool ended_ = false;
  bool told_ = false;  // that there is no thread
  std::vector<std::jthread> thread_;
};

}  // namespace keel
