#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "keel/data/rows/bad_row.h"
#include "keel/data/rows/data_format.h"
#include "keel/data/rows/spool.h"

namespace keel {

/// Splits a text that is not JSON lines into rows. Each becomes a line of the spool: its line number, a space, and its
/// JSON object, or "!LINES " and the error instead of the object.
class TextRows {
 public:
  virtual ~TextRows() = default;
  /// Adds the next piece of the text.
  virtual void add(std::string_view piece) = 0;
  /// Returns the error at the end of the text, if it is incomplete.
  virtual std::optional<BadRow> finish() = 0;
};

/// A JSON list of objects; `place` is the name of the file.
std::unique_ptr<TextRows> json_list_rows(std::string place, Spool& spool);

/// CSV with a header, through Arrow. Values are texts; an empty one without quotes is null.
std::unique_ptr<TextRows> csv_rows(std::string place, Spool& spool);

}  // namespace keel
