#include "keel/reward/scoring_queue.h"

#include "keel/core/interrupt.h"
#include "keel/core/parallel.h"

namespace keel {

ScoringQueue::ScoringQueue(const RewardSum& reward, std::span<const Prompt> prompts, const Tokenizer& tokenizer,
                           size_t threads, std::function<void()> check_cancelled)
    : reward_(reward), prompts_(prompts), tokenizer_(tokenizer), check_cancelled_(std::move(check_cancelled)) {
  threads_ = begin_threads(thread_count(threads), [this] { work(); });
}

ScoringQueue::~ScoringQueue() {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.clear();
    closed_ = true;
  }
  changed_.notify_all();
}

void ScoringQueue::add(std::span<const Rollout> group) {
  Group added{group.front().prompt, make_reward_samples(group, prompts_, tokenizer_)};
  {
    const std::scoped_lock lock(mutex_);
    if (failures_.empty()) waiting_.push_back(std::move(added));
  }
  changed_.notify_one();
}

ScoreReport ScoringQueue::finish(std::span<Rollout> rollouts, std::function<void(size_t)> on_progress) {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    on_progress_ = std::move(on_progress);
    if (on_progress_) on_progress_(scores_.size());
  }
  changed_.notify_all();
  if (threads_.empty()) work();
  threads_.clear();  // joins
  if (!failures_.empty()) {
    throw_if_stopped();
    std::rethrow_exception(failures_.begin()->second);
  }
  std::map<int64_t, size_t> next_index;
  for (Rollout& rollout : rollouts) scores_.at(rollout.prompt).set_reward(next_index[rollout.prompt]++, rollout);
  ScoreReport all;
  for (const auto& [prompt, score] : scores_) all.add(score.report);
  return all;
}

void ScoringQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Group group = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    GroupScore score;
    std::exception_ptr failure;
    try {
      throw_if_stopped();
      if (check_cancelled_) check_cancelled_();
      score = score_group(group.samples, reward_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      failures_[group.prompt] = failure;
      waiting_.clear();
    } else {
      scores_[group.prompt] = std::move(score);
      if (on_progress_) on_progress_(scores_.size());
    }
  }
}

}  // namespace keel
