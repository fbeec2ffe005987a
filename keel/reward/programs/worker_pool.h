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
  bool sends_ready = false;  // its first line is {"ready": true}, or {"ready": false, "error": ...}
  double timeout = 60;       // seconds for one request
  size_t workers = 1;        // maximum number of processes
  /// Files of the program. They must not change between the starts of two workers.
  std::vector<std::string> files = {};
};

/// Returns the SHA-256 of a file, or the size of a large one.
std::string file_fingerprint(const std::string& file);

/// Processes of one program that answer requests, one JSON object per line. A process that hangs, exits or breaks the
/// protocol is killed with its descendants, and a new one is started for the next request.
class WorkerPool final : public Channel {
 public:
  /// Starts the first worker, to fail early: kBadConfiguration if it cannot be started, kRewardProgramFailed if it does
  /// not become ready.
  explicit WorkerPool(WorkerOptions options);

  void exchange(const std::string& request, const Accept& accept) override;

 private:
  std::unique_ptr<ChildProcess> start() const;
  std::unique_ptr<ChildProcess> acquire();
  void release(std::unique_ptr<ChildProcess> worker);

  void require_same_files() const;

  WorkerOptions options_;
  std::vector<std::string> fingerprints_;  // of options_.files
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ChildProcess>> idle_;
  size_t busy_ = 0;
};

}  // namespace keel
