#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "keel/core/prompt.h"

namespace keel {

/// A place in the stream that gives no prompt, and why.
struct SkippedRow {
  enum class Why { kBad, kTooLong, kOtherSplit };
  Why why;
  std::string reason;  // for the log
  uint64_t rows = 1;
};

/// What was passed over since the stream was opened, each row once: further passes over the data find the same ones.
struct SkippedCounts {
  uint64_t bad = 0, too_long = 0;
  uint64_t other_split = 0;  // as they should be, and worth a word only where nothing else is there
  std::string first;         // reason of those that are bad or too long
};

/// Prompts in a fixed order. The position is one global counter, so a resumed run goes on with exactly the next prompt;
/// it counts what is skipped as well.
class PromptStream {
 public:
  /// What stands at a place: a pure function.
  using Source = std::function<std::variant<Prompt, SkippedRow>(uint64_t)>;

  /// `pass` is the number of places in one pass over the data; 0 where there is no end. A stream that does not repeat
  /// ends after one pass.
  explicit PromptStream(Source prompt_at, uint64_t pass = 0, bool repeats = true)
      : prompt_at_(std::move(prompt_at)), pass_(pass), repeats_(repeats) {}

  /// The next prompts; fewer than asked for at the end of a stream that does not repeat. A whole pass without a single
  /// prompt is an Error.
  std::vector<Prompt> next(int64_t count);

  /// How many prompts one pass gives, whatever its order; reads and encodes every row. Interrupted when someone asks to
  /// stop.
  uint64_t prompts_per_pass() const;

  uint64_t position() const { return position_; }
  void seek(uint64_t position) { position_ = position; }
  const SkippedCounts& skipped() const { return skipped_; }

  /// Where the stream stands, with what it has passed over up to there.
  struct Place {
    uint64_t position = 0;
    SkippedCounts skipped = {};
  };
  Place place() const { return {position_, skipped_}; }
  /// As if nothing behind that place had been looked at.
  void go_back_to(const Place& place) {
    position_ = place.position;
    skipped_ = place.skipped;
  }

 private:
  [[noreturn]] void refuse_empty_pass(const SkippedCounts& skipped) const;

  Source prompt_at_;
  uint64_t pass_;
  bool repeats_;
  uint64_t position_ = 0;
  SkippedCounts skipped_;
};

}  // namespace keel
