#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "keel/reward/reward.h"

namespace keel {

/// Why a request to a reward program got no answer.
struct ChannelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Nobody answers at all, or not for as many completions as were asked about: there is no sense in asking again.
struct ChannelDown : ChannelError {
  using ChannelError::ChannelError;
};

/// A way to ask a program outside: one JSON text there, one back. Safe to use from several threads.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Throws ChannelError when no answer comes. `accept` reads the answer; when it throws, whoever sent it is not to be
  /// trusted with the next request.
  using Accept = std::function<void(const std::string& reply)>;
  virtual void exchange(const std::string& request, const Accept& accept) = 0;
};

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
