#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keel/core/interrupt.h"

namespace keel {

/// A position of the stream without an item, and the reason.
struct SkippedRow {
  enum class Why { kBad, kTooLong, kOtherSplit };
  Why why;
  std::string reason;  // for the log
  uint64_t rows = 1;
};

/// Rows skipped since the stream was opened. Each row counts once, in the first pass.
struct SkippedCounts {
  uint64_t bad = 0, too_long = 0;
  uint64_t other_split = 0;  // rows of the other split, not a problem; reported only if no row is left
  std::string first;         // reason of the first bad or too long row

  void add(const SkippedRow& row);
};

/// Names for error messages.
struct StreamNames {
  std::string item = "a prompt";  // what a row becomes
  std::string section = "data";   // the section of the configuration with the files
};

[[noreturn]] void refuse_empty_pass(uint64_t pass, const SkippedCounts& skipped, const StreamNames& names);

/// Items made from rows in a fixed order. The position is one global counter that includes skipped rows, so a resumed
/// run continues with exactly the next item.
template <class Item>
class RowStream {
 public:
  /// A pure function from a position to its item.
  using Source = std::function<std::variant<Item, SkippedRow>(uint64_t)>;

  /// `pass` is the number of positions per pass over the data; 0: unlimited. A stream that does not repeat ends after
  /// one pass.
  explicit RowStream(Source item_at, uint64_t pass = 0, bool repeats = true, StreamNames names = {})
      : item_at_(std::move(item_at)), pass_(pass), repeats_(repeats), names_(std::move(names)) {}

  /// Returns the next `count` items; fewer at the end of a stream that does not repeat. A whole pass without an item is
  /// an Error.
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
          refuse_empty_pass(pass_, skipped_here, names_);
      }
    }
    return items;
  }

  /// The number of items and skipped rows of one pass.
  struct Survey {
    uint64_t items = 0;
    SkippedCounts skipped = {};
  };
  /// Reads and encodes every row. Throws Interrupted on a stop request.
  Survey survey() const {
    Survey survey;
    for (uint64_t position = 0; position < pass_; ++position) {
      throw_if_stopped();
      const std::variant<Item, SkippedRow> found = item_at_(position);
      if (const SkippedRow* skipped = std::get_if<SkippedRow>(&found))
        survey.skipped.add(*skipped);
      else
        survey.items++;
    }
    return survey;
  }

  uint64_t position() const { return position_; }
  void seek(uint64_t position) { position_ = position; }
  const SkippedCounts& skipped() const { return skipped_; }

  /// A position of the stream with the counts of skipped rows up to there.
  struct Bookmark {
    uint64_t position = 0;
    SkippedCounts skipped = {};
  };
  Bookmark bookmark() const { return {position_, skipped_}; }
  /// Returns to a bookmark.
  void rewind(const Bookmark& bookmark) {
    position_ = bookmark.position;
    skipped_ = bookmark.skipped;
  }

 private:
  Source item_at_;
  uint64_t pass_;
  bool repeats_;
  StreamNames names_;
  uint64_t position_ = 0;
  SkippedCounts skipped_;
};

}  // namespace keel
