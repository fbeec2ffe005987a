#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keel/core/interrupt.h"

namespace keel {

/// A place in the stream that gives nothing, and why.
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

  void add(const SkippedRow& row);
};

/// What errors call the rows of a stream.
struct RowWords {
  std::string item = "a prompt";  // that a row gives
  std::string section = "data";   // of the configuration, that names the files
};

[[noreturn]] void refuse_empty_pass(uint64_t pass, const SkippedCounts& skipped, const RowWords& words);

/// What rows give, in a fixed order. The position is one global counter, so a resumed run goes on with exactly the next
/// one; it counts what is skipped as well.
template <class Item>
class RowStream {
 public:
  /// What stands at a place: a pure function.
  using Source = std::function<std::variant<Item, SkippedRow>(uint64_t)>;

  /// `pass` is the number of places in one pass over the data; 0 where there is no end. A stream that does not repeat
  /// ends after one pass.
  explicit RowStream(Source item_at, uint64_t pass = 0, bool repeats = true, RowWords words = {})
      : item_at_(std::move(item_at)), pass_(pass), repeats_(repeats), words_(std::move(words)) {}

  /// The next ones; fewer than asked for at the end of a stream that does not repeat. A whole pass without a single one
  /// is an Error.
  std::vector<Item> next(int64_t count) {
    std::vector<Item> items;
    SkippedCounts skipped_here;
    uint64_t skipped_in_a_row = 0;
    while (static_cast<int64_t>(items.size()) < count && (repeats_ || position_ < pass_)) {
      const bool first_pass = pass_ == 0 || position_ < pass_;
      std::variant<Item, SkippedRow> found = item_at_(position_);
      ++position_;
      if (Item* item = std::get_if<Item>(&found)) {
        items.push_back(std::move(*item));
        skipped_in_a_row = 0;
      } else {
        skipped_here.add(std::get<SkippedRow>(found));
        if (first_pass) skipped_.add(std::get<SkippedRow>(found));
        if (++skipped_in_a_row >= pass_ && repeats_ && pass_ > 0 && position_ % pass_ == 0)
          refuse_empty_pass(pass_, skipped_here, words_);
      }
    }
    return items;
  }

  /// What one pass gives, whatever its order, and what it passes over.
  struct Survey {
    uint64_t items = 0;
    SkippedCounts skipped = {};
  };
  /// Reads and encodes every row. Interrupted when someone asks to stop.
  Survey survey() const {
    Survey found;
    for (uint64_t position = 0; position < pass_; ++position) {
      throw_if_stopped();
      const std::variant<Item, SkippedRow> here = item_at_(position);
      if (const SkippedRow* skipped = std::get_if<SkippedRow>(&here))
        found.skipped.add(*skipped);
      else
        found.items++;
    }
    return found;
  }

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
  Source item_at_;
  uint64_t pass_;
  bool repeats_;
  RowWords words_;
  uint64_t position_ = 0;
  SkippedCounts skipped_;
};

}  // namespace keel
