#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "keel/reward/functions/reward.h"
#include "keel/reward/programs/channel.h"

namespace keel {

/// A reward from an external program; docs/rewards.md has the protocol. If a request for a group fails, each completion
/// is retried alone, so that one that hangs or crashes the program does not affect the others.
class ProgramReward final : public Reward {
 public:
  explicit ProgramReward(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}
  Scores operator()(std::span<const RewardSample> samples) const override;

 private:
  Scores request_scores(std::span<const RewardSample> samples) const;
  void print_new_tracebacks(const Json& reply) const;

  std::unique_ptr<Channel> channel_;
  mutable std::atomic<uint64_t> next_id_ = 0;
  mutable std::mutex printed_mutex_;
  mutable std::set<std::string> printed_;  // code locations whose traceback was printed
};

}  // namespace keel
