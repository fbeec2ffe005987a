#include "keel/train/background_sampler.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "keel/core/parallel.h"
#include "keel/core/tensor/device.h"

namespace keel {
namespace {

/// Thrown to cancel a batch that no step will use.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "the batch was cancelled"; }
};

}  // namespace

BackgroundSampler::BackgroundSampler(BatchSampler& sampler, at::Device device, int64_t threads)
    : sampler_(sampler),
      device_(device),
      thread_(begin_threads(1, [this, device, threads] { work(device, threads); })) {}

BackgroundSampler::~BackgroundSampler() {
  {
    const std::scoped_lock lock(mutex_);
    cancelled_ = stopping_ = true;
    queued_.clear();
  }
  changed_.notify_all();
}

void BackgroundSampler::request(const SamplerWeights& weights, uint64_t policy_version,
                                std::shared_ptr<StepMeters> meters) {
  synchronize(device_);  // waits for the copy of the weights; the sampling thread's CUDA stream would not
  const auto throw_if_cancelled = [this] {
    const std::scoped_lock lock(mutex_);
    if (cancelled_) throw Cancelled();
  };
  Task task([=, this] {
    try {
      throw_if_cancelled();
      RolloutBatch batch = sampler_.sample(position_, weights, policy_version, {meters->sampling, throw_if_cancelled});
      position_ = batch.position;
      return batch;
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      cancelled_ = true;
      throw;
    }
  });
  requested_.push_back(task.get_future());
  {
    const std::scoped_lock lock(mutex_);
    queued_.push_back(std::move(task));
  }
  changed_.notify_all();
}

RolloutBatch BackgroundSampler::take() {
  std::future<RolloutBatch> oldest = std::move(requested_.front());
  requested_.pop_front();
  if (thread_.empty()) {
    Task task = std::move(queued_.front());
    queued_.pop_front();
    task();
  }
  try {
    RolloutBatch batch = oldest.get();
    if (thread_.empty() && !std::exchange(warned_, true))
      batch.warnings.push_back(std::string("the background sampling thread could not be started, so sampling and ") +
                               "training alternate. " + kThreadLimits);
    return batch;
  } catch (...) {
    if (thread_.empty())
      queued_.clear();
    else
      for (const std::future<RolloutBatch>& later : requested_) later.wait();  // each throws Cancelled when it starts
    requested_.clear();
    const std::scoped_lock lock(mutex_);
    cancelled_ = false;
    throw;
  }
}

void BackgroundSampler::work(at::Device device, int64_t threads) {
  use_threads(threads);  // OpenMP's thread count is per thread, and the order of sums depends on it
  std::optional<c10::StreamGuard> stream;
  if (device.is_cuda())
    stream.emplace(c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool(device, /*isHighPriority=*/false));
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queued_.empty(); });
    if (stopping_) return;
    Task task = std::move(queued_.front());
    queued_.pop_front();
    lock.unlock();
    task();
    task = {};  // frees the weights
    lock.lock();
  }
}

}  // namespace keel
