#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/reward/score.h"

namespace keel {

/// Scores finished groups on its own threads while other groups are still being sampled:
///
///   ScoringQueue queue(reward, prompts, tokenizer, threads);
///   const auto on_group = [&](auto group) { queue.add(group); };
///   std::vector<Rollout> rollouts = engine.generate(prompts, request, {.group = on_group});
///   const ScoreReport report = queue.finish(rollouts);
///
/// A group's rewards depend on that group alone, so the order of scoring does not matter. The queue copies the groups,
/// so that an exception during generation leaves no dangling references.
class ScoringQueue {
 public:
  /// All arguments must outlive the queue. `threads` 0 means one per core. Any thread calls `check_cancelled` before
  /// each group; it throws to cancel. If the system cannot create threads, finish() scores the groups.
  ScoringQueue(const RewardSum& reward, std::span<const Prompt> prompts, const Tokenizer& tokenizer, size_t threads,
               std::function<void()> check_cancelled = {});
  /// Waits for the groups being scored and discards the rest.
  ~ScoringQueue();
  ScoringQueue(const ScoringQueue&) = delete;
  ScoringQueue& operator=(const ScoringQueue&) = delete;

  /// Number of threads that were created. Call it before finish().
  size_t threads() const { return threads_.size(); }

  /// Enqueues the rollouts of one prompt without waiting.
  void add(std::span<const Rollout> group);

  /// Waits until all groups are scored and sets the rewards of `rollouts`, which must be all that were added. After a
  /// failure it scores no further group and rethrows the first prompt's failure, or Interrupted after a stop request.
  /// Any thread calls `on_progress` with the number of scored groups.
  ScoreReport finish(std::span<Rollout> rollouts, std::function<void(size_t groups)> on_progress = {});

 private:
  void work();

  const RewardSum& reward_;
  std::span<const Prompt> prompts_;
  const Tokenizer& tokenizer_;
  std::function<void()> check_cancelled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Group {
    int64_t prompt = 0;
    std::vector<RewardSample> samples;
  };
  std::deque<Group> waiting_;
  std::map<int64_t, GroupScore> scores_;  // by prompt
  std::map<int64_t, std::exception_ptr> failures_;
  bool closed_ = false;
  std::function<void(size_t)> on_progress_;
  std::vector<std::jthread> threads_;
};

}  // namespace keel
