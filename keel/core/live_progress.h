#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "keel/core/console.h"

namespace keel {

/// How far the stage of a longer work is that is under way. Whoever does the work sets it, whoever shows it reads it,
/// on any threads.
class StageMeter {
 public:
  /// `clock` in seconds; empty is the steady one.
  explicit StageMeter(std::function<double()> clock = {}) : clock_(std::move(clock)) {}

  void begin(std::string name, int64_t all);
  void set(int64_t done, int64_t tokens = 0);
  void end();

  /// "rollout 37/128, 410 tokens/s"; empty where no stage is under way.
  std::string text() const;

 private:
  double now() const;

  std::function<double()> clock_;
  mutable std::mutex mutex_;
  std::string name_;
  int64_t done_ = 0, all_ = 0, tokens_ = 0;
  double began_ = 0;
};

/// A stage from here to the end of the block, however that is left.
class Stage {
 public:
  Stage(StageMeter& meter, std::string name, int64_t all) : meter_(meter) { meter_.begin(std::move(name), all); }
  ~Stage() { meter_.end(); }
  Stage(const Stage&) = delete;
  void set(int64_t done, int64_t tokens = 0) { meter_.set(done, tokens); }

 private:
  StageMeter& meter_;
};

/// Shows a text again and again on a console, from a thread of its own, so that a stage which takes minutes is seen to
/// go on. Where there can be no thread nothing is shown.
class LiveLine {
 public:
  /// An empty text shows nothing. The console must outlive it.
  LiveLine(Console& console, std::function<std::string()> text);
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;

 private:
  void work();

  Console& console_;
  std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::vector<std::jthread> thread_;
};

}  // namespace keel
