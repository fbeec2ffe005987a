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

/// Progress of the current stage of a longer task. Thread-safe: the worker sets it, and the display reads it.
class StageMeter {
 public:
  /// `clock` returns seconds; empty: the steady clock.
  explicit StageMeter(std::function<double()> clock = {}) : clock_(std::move(clock)) {}

  void begin(std::string name, int64_t total);
  void set(int64_t done, int64_t tokens = 0);
  void end();

  /// Returns "rollout 37/128, 410 tokens/s", or an empty string outside a stage.
  std::string text() const;

 private:
  double now() const;

  std::function<double()> clock_;
  mutable std::mutex mutex_;
  std::string name_;
  int64_t done_ = 0, total_ = 0, tokens_ = 0;
  double begin_time_ = 0;
};

/// RAII guard: begins a stage and ends it at the end of the scope.
class Stage {
 public:
  Stage(StageMeter& meter, std::string name, int64_t total) : meter_(meter) { meter_.begin(std::move(name), total); }
  ~Stage() { meter_.end(); }
  Stage(const Stage&) = delete;
  void set(int64_t done, int64_t tokens = 0) { meter_.set(done, tokens); }

 private:
  StageMeter& meter_;
};

/// Refreshes a text on a console from its own thread, to show the progress of long stages. If the thread cannot be
/// created, nothing is shown.
class LiveLine {
 public:
  /// An empty text is not printed. The console must outlive this object.
  LiveLine(Console& console, std::function<std::string()> text);
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;

 private:
  void refresh();

  Console& console_;
  std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::vector<std::jthread> thread_;
};

}  // namespace keel
