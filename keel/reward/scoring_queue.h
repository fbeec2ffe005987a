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

/// Scores finished groups on threads of its own while others are still being sampled:
///
///   ScoringQueue queue(reward, prompts, tokenizer, threads);
///   std::vector<Rollout> rollouts = engine.generate(prompts, request, {.group = [&](auto group) { queue.add(group);
///   }}); const ScoreReport report = queue.finish(rollouts);
///
/// A group's rewards depend on that group alone, so the order of scoring does not matter. Groups are copied: a
/// generation that ends in an exception leaves nothing here that points to its rollouts.
class ScoringQueue {
 public:
  /// Everything must outlive the queue. `threads` 0 means one per core. `keep_on` is called before each group, by any
  /// thread, and throws where nobody wants the scores any more. Where the system gives fewer threads they do it all,
  /// and where it gives none finish() does.
  ScoringQueue(const RewardSum& reward, std::span<const Prompt> prompts, const Tokenizer& tokenizer, size_t threads,
               std::function<void()> keep_on = {});
  /// Waits for the groups being scored and forgets the rest.
  ~ScoringQueue();
  ScoringQueue(const ScoringQueue&) = delete;
  ScoringQueue& operator=(const ScoringQueue&) = delete;

  /// That it has got; before finish().
  size_t threads() const { return threads_.size(); }

  /// Takes the rollouts of one prompt and returns at once.
  void add(std::span<const Rollout> group);

  /// Waits until all groups are scored and sets the rewards of `rollouts`, which are all that were added. After a
  /// failure no further group is begun, and the failure of the first prompt that has one is thrown here; Interrupted
  /// where someone asked to stop before all were scored.
  /// `scored` is told how many groups are, while it waits, by any thread.
  ScoreReport finish(std::span<Rollout> rollouts, std::function<void(size_t groups)> scored = {});

 private:
  void work();

  const RewardSum& reward_;
  std::span<const Prompt> prompts_;
  const Tokenizer& tokenizer_;
  std::function<void()> keep_on_;
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
  std::function<void(size_t)> scored_;
  std::vector<std::jthread> threads_;
};

}  // namespace keel
