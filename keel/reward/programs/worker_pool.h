#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "keel/reward/programs/channel.h"
#include "keel/reward/programs/child_process.h"

namespace keel {

struct WorkerOptions {
  std::vector<std::string> command;
  bool says_ready = false;  // its first line is {"ready": true}, or {"ready": false, "error": ...}
  double timeout = 60;      // seconds for one request
  size_t workers = 1;       // at most this many at once
  /// That the program is made of: a worker that is started later must find them as the first one did.
  std::vector<std::string> files = {};
};

/// What a file holds, as a short text: its SHA-256, of a large one its size.
std::string fingerprint_of(const std::string& file);

/// Processes of one program that answer requests, a JSON object on one line each. One that hangs, ends or speaks out of
/// turn is killed with all that it started, and another is started for the next request.
class WorkerPool final : public Channel {
 public:
  /// Starts the first worker, so that a program that cannot work is found out at once (kBadConfiguration where it
  /// cannot be started, kRewardProgramFailed where it does not get ready).
  explicit WorkerPool(WorkerOptions options);

  void exchange(const std::string& request, const Accept& accept) override;

 private:
  std::unique_ptr<ChildProcess> start() const;
  std::unique_ptr<ChildProcess> take();
  void give_back(std::unique_ptr<ChildProcess> worker);

  void require_same_files() const;

  WorkerOptions options_;
  std::vector<std::string> fingerprints_;  // of options_.files
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ChildProcess>> idle_;
  size_t busy_ = 0;
};

}  // namespace keel
