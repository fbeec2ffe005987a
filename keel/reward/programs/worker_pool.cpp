#include "keel/reward/programs/worker_pool.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"
#include "keel/core/json_reader.h"
#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

constexpr double kStartSeconds = 300;    // Python imports can take long
constexpr double kQuietSeconds = 0.005;  // a second line within this time after a reply is a protocol error
constexpr uint64_t kMaxHashedBytes = uint64_t{64} << 20;

std::string seconds_text(double seconds) {
  std::ostringstream text;
  text << seconds << " s";
  return text.str();
}

/// Returns the reply line, or throws a ChannelError.
std::string take_line(ChildProcess& worker, ExchangeResult result, double seconds) {
  if (result == ExchangeResult::kTimeout) throw ChannelError("did not answer within " + seconds_text(seconds));
  if (result == ExchangeResult::kTooLong)
    throw ChannelError("printed " + std::to_string(worker.output().size()) + " bytes without an end of line");
  const size_t end = worker.output().find('\n');
  if (end == std::string::npos) {
    const std::string status = worker.exit_status();
    std::string text = "exited without a reply";
    if (!status.empty()) text += ": " + status;
    if (!worker.output().empty()) text += ", last output " + printable(worker.output());
    throw ChannelError(text);
  }
  if (end + 1 < worker.output().size())
    throw ChannelError("printed more than one line: " + printable(worker.output()) +
                       "; print messages to standard error");
  const std::string line = worker.output().substr(0, end);
  worker.output().clear();
  return line;
}

}  // namespace

std::string file_fingerprint(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return "no file";
  const uint64_t size = std::filesystem::file_size(file, ignored);
  return size > kMaxHashedBytes ? std::to_string(size) + " bytes" : "sha256:" + sha256_of_file(file);
}

WorkerPool::WorkerPool(WorkerOptions options) : options_(std::move(options)) {
  for (const std::string& file : options_.files) fingerprints_.push_back(file_fingerprint(file));
  try {
    idle_.push_back(start());
  } catch (const ChannelError& error) {
    fail(ExitCode::kRewardProgramFailed, "reward program ", options_.command[0], ": ", error.what());
  }
}

/// All rewards of a run must come from the same version of the program.
void WorkerPool::require_same_files() const {
  for (size_t i = 0; i < fingerprints_.size(); ++i) {
    const std::string now = file_fingerprint(options_.files[i]);
    if (now != fingerprints_[i])
      fail(ExitCode::kRewardProgramFailed, "reward program ", options_.files[i],
           ": the file was changed during the run (was ", fingerprints_[i], ", is ", now,
           "). Fix: restore it. A run that is started or resumed later uses the new version");
  }
}

std::unique_ptr<ChildProcess> WorkerPool::start() const {
  require_same_files();
  auto worker = std::make_unique<ChildProcess>(SpawnRequest{.command = options_.command, .supervised = true});
  if (!options_.sends_ready) return worker;
  const double timeout = std::max(kStartSeconds, options_.timeout);
  const ExchangeResult result = worker->exchange({.input = "", .deadline = seconds_from_now(timeout)});
  const Json greeting = try_parse_json(take_line(*worker, result, timeout)).value_or(Json());
  if (!greeting.is_object() || greeting.value("ready", Json()) != true)
    throw ChannelDown(greeting.is_object() && greeting.contains("error") ? greeting["error"].get<std::string>()
                                                                         : "did not send its ready line");
  return worker;
}

std::unique_ptr<ChildProcess> WorkerPool::acquire() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ < options_.workers; });
  ++busy_;
  if (idle_.empty()) return nullptr;
  std::unique_ptr<ChildProcess> worker = std::move(idle_.back());
  idle_.pop_back();
  return worker;
}

void WorkerPool::release(std::unique_ptr<ChildProcess> worker) {
  {
    const std::scoped_lock lock(mutex_);
    --busy_;
    if (worker) idle_.push_back(std::move(worker));
  }
  changed_.notify_one();
}

void WorkerPool::exchange(const std::string& request, const Accept& accept) {
  std::unique_ptr<ChildProcess> worker = acquire();
  try {
    if (worker) {
      const ExchangeResult idle = worker->exchange({.input = "", .deadline = {}});
      // No retry: the line that was taken for the last reply may not have been one.
      if (!worker->output().empty())
        throw ChannelDown(
            "sent a reply without a request: it printed " + printable(worker->output()) +
            " after its last reply, so that rewards may be assigned to the wrong completions; " +
            "expected one line per request, preferably with its \"id\"; print messages to standard error");
      if (idle != ExchangeResult::kTimeout) worker.reset();  // it has exited since its last reply
    }
    if (!worker) worker = start();
    const ExchangeResult result =
        worker->exchange({.input = request + "\n", .deadline = seconds_from_now(options_.timeout)});
    const std::string line = take_line(*worker, result, options_.timeout);
    if (!options_.sends_ready) {
      worker->exchange({.input = "", .deadline = seconds_from_now(kQuietSeconds)});
      if (!worker->output().empty()) {
        worker->output().insert(0, line + "\n");
        take_line(*worker, ExchangeResult::kLine, options_.timeout);
      }
    }
    accept(line);
  } catch (...) {
    if (worker) worker->kill();
    release(nullptr);
    throw;
  }
  release(std::move(worker));
}

}  // namespace keel
