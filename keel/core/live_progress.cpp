#include "keel/core/live_progress.h"

#include <chrono>

#include "keel/core/parallel.h"
#include "keel/core/steady_clock.h"

namespace keel {

double StageMeter::now() const { return clock_ ? clock_() : steady_seconds(); }

void StageMeter::begin(std::string name, int64_t total) {
  const std::scoped_lock lock(mutex_);
  name_ = std::move(name);
  total_ = total;
  done_ = tokens_ = 0;
  begin_time_ = now();
}

void StageMeter::set(int64_t done, int64_t tokens) {
  const std::scoped_lock lock(mutex_);
  done_ = done;
  tokens_ = tokens;
}

void StageMeter::end() {
  const std::scoped_lock lock(mutex_);
  name_.clear();
}

std::string StageMeter::text() const {
  const std::scoped_lock lock(mutex_);
  if (name_.empty()) return "";
  std::string text = name_ + " " + std::to_string(done_) + "/" + std::to_string(total_);
  const double seconds = now() - begin_time_;
  if (tokens_ > 0 && seconds > 0)
    text += ", " + format_count(static_cast<int64_t>(static_cast<double>(tokens_) / seconds + 0.5)) + " tokens/s";
  return text;
}

LiveLine::LiveLine(Console& console, std::function<std::string()> text)
    : console_(console), text_(std::move(text)), thread_(begin_threads(1, [this] { refresh(); })) {}

LiveLine::~LiveLine() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void LiveLine::refresh() {
  const auto pause = std::chrono::milliseconds(console_.terminal() ? 200 : 1000);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [&] { return ended_; })) {
    lock.unlock();
    if (const std::string text = text_(); !text.empty()) console_.live(text);
    lock.lock();
  }
}

}  // namespace keel
