#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "keel/reward/functions/reward.h"
#include "keel/reward/programs/channel.h"

namespace keel {

/// A reward that a program outside gives; the protocol is in docs/rewards.md. A batch that gets no sound answer is
/// tried once more, one completion at a time: one that hangs or crashes the program costs the others nothing.
class ProgramReward final : public Reward {
 public:
  explicit ProgramReward(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}
  Scores operator()(std::span<const RewardSample> samples) const override;

 private:
  Scores ask(std::span<const RewardSample> samples) const;
  void tell_tracebacks(const Json& reply) const;

  std::unique_ptr<Channel> channel_;
  mutable std::atomic<uint64_t> next_id_ = 0;
  mutable std::mutex told_mutex_;
  mutable std::set<std::string> told_;  // places of failures whose traceback was printed, whichever process sent it
};

}  // namespace keel
