#include "keel/reward/programs/worker_pool.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"
#include "keel/core/foreign_text.h"
#include "keel/core/json_reader.h"

namespace keel {
namespace {

constexpr double kStartSeconds = 300;  // Python's imports can take long
constexpr double kSilence = 0.005;     // seconds after an answer in which another line shows that one of them is none
constexpr uint64_t kReadWhole = uint64_t{64} << 20;

std::string seconds_text(double seconds) {
  std::ostringstream text;
  text << seconds << " s";
  return text.str();
}

/// The line that came; a ChannelError says what came instead.
std::string line_of(ChildProcess& worker, Exchanged how, double seconds) {
  if (how == Exchanged::kTimeout) throw ChannelError("did not answer within " + seconds_text(seconds));
  if (how == Exchanged::kTooLong)
    throw ChannelError("printed " + std::to_string(worker.output().size()) + " bytes without an end of line");
  const size_t end = worker.output().find('\n');
  if (end == std::string::npos) {
    const std::string ending = worker.ending();
    std::string text = "ended without an answer";
    if (!ending.empty()) text += ": " + ending;
    if (!worker.output().empty()) text += ", its last words " + printable(worker.output());
    throw ChannelError(text);
  }
  if (end + 1 < worker.output().size())
    throw ChannelError("printed more than one line: " + printable(worker.output()) + "; messages go to standard error");
  const std::string line = worker.output().substr(0, end);
  worker.output().clear();
  return line;
}

}  // namespace

std::string fingerprint_of(const std::string& file) {
  std::error_code unseen;
  if (!std::filesystem::is_regular_file(file, unseen)) return "no file";
  const uint64_t size = std::filesystem::file_size(file, unseen);
  return size > kReadWhole ? std::to_string(size) + " bytes" : "sha256:" + sha256_of_file(file);
}

WorkerPool::WorkerPool(WorkerOptions options) : options_(std::move(options)) {
  for (const std::string& file : options_.files) fingerprints_.push_back(fingerprint_of(file));
  try {
    idle_.push_back(start());
  } catch (const ChannelError& error) {
    fail(ExitCode::kRewardProgramFailed, "reward program ", options_.command[0], ": ", error.what());
  }
}

/// Rewards of one run are those of one program.
void WorkerPool::require_same_files() const {
  for (size_t i = 0; i < fingerprints_.size(); ++i) {
    const std::string now = fingerprint_of(options_.files[i]);
    if (now != fingerprints_[i])
      fail(ExitCode::kRewardProgramFailed, "reward program ", options_.files[i],
           ": it was changed while it was in use (", fingerprints_[i], " then, ", now,
           " now), so that another process of it would give other rewards; restore it, or go on with it as it is now ",
           "by --resume");
  }
}

std::unique_ptr<ChildProcess> WorkerPool::start() const {
  require_same_files();
  auto worker = std::make_unique<ChildProcess>(SpawnRequest{.command = options_.command, .kept = true});
  if (!options_.says_ready) return worker;
  const double patience = std::max(kStartSeconds, options_.timeout);
  const Exchanged how = worker->exchange({.input = "", .deadline = seconds_from_now(patience)});
  const Json greeting = try_parse_json(line_of(*worker, how, patience)).value_or(Json());
  if (!greeting.is_object() || greeting.value("ready", Json()) != true)
    throw ChannelDown(greeting.is_object() && greeting.contains("error") ? greeting["error"].get<std::string>()
                                                                         : "did not say that it is ready");
  return worker;
}

std::unique_ptr<ChildProcess> WorkerPool::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ < options_.workers; });
  ++busy_;
  if (idle_.empty()) return nullptr;
  std::unique_ptr<ChildProcess> worker = std::move(idle_.back());
  idle_.pop_back();
  return worker;
}

void WorkerPool::give_back(std::unique_ptr<ChildProcess> worker) {
  {
    const std::scoped_lock lock(mutex_);
    --busy_;
    if (worker) idle_.push_back(std::move(worker));
  }
  changed_.notify_one();
}

void WorkerPool::exchange(const std::string& request, const Accept& accept) {
  std::unique_ptr<ChildProcess> worker = take();
  try {
    if (worker) {
      const Exchanged since = worker->exchange({.input = "", .deadline = {}});
      // Not to be asked again for: what was taken for its last answer may have been none.
      if (!worker->output().empty())
        throw ChannelDown("answered before it was asked: it printed " + printable(worker->output()) +
                          " after its last answer, so that rewards may have gone to the wrong completions; " +
                          "expected one line for each request, best with its \"id\"; messages go to standard error");
      if (since != Exchanged::kTimeout) worker.reset();  // it has ended since it was last heard
    }
    if (!worker) worker = start();
    const Exchanged how = worker->exchange({.input = request + "\n", .deadline = seconds_from_now(options_.timeout)});
    const std::string line = line_of(*worker, how, options_.timeout);
    if (!options_.says_ready) {
      worker->exchange({.input = "", .deadline = seconds_from_now(kSilence)});
      if (!worker->output().empty()) {
        worker->output().insert(0, line + "\n");
        line_of(*worker, Exchanged::kLine, options_.timeout);
      }
    }
    accept(line);
  } catch (...) {
    if (worker) worker->kill();
    give_back(nullptr);
    throw;
  }
  give_back(std::move(worker));
}

}  // namespace keel
