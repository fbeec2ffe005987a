#include "keel/reward/programs/worker_pool.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/core/json_reader.h"

namespace keel {
namespace {

constexpr double kStartSeconds = 300;  // Python's imports can take long

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

WorkerPool::WorkerPool(WorkerOptions options) : options_(std::move(options)) {
  try {
    idle_.push_back(start());
  } catch (const ChannelError& error) {
    fail(ExitCode::kRewardProgramFailed, "reward program ", options_.command[0], ": ", error.what());
  }
}

std::unique_ptr<ChildProcess> WorkerPool::start() const {
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
    // It may have ended, or said something unasked, since it was last heard.
    if (worker && (worker->exchange({.input = "", .deadline = {}}) != Exchanged::kTimeout || !worker->output().empty()))
      worker.reset();
    if (!worker) worker = start();
    const Exchanged how = worker->exchange({.input = request + "\n", .deadline = seconds_from_now(options_.timeout)});
    accept(line_of(*worker, how, options_.timeout));
  } catch (...) {
    if (worker) worker->kill();
    give_back(nullptr);
    throw;
  }
  give_back(std::move(worker));
}

}  // namespace keel
