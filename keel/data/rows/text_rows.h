#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "keel/data/rows/bad_row.h"
#include "keel/data/rows/data_format.h"
#include "keel/data/rows/spool.h"

namespace keel {

/// Cuts a text that is not JSON lines into rows. Each becomes a line of the spool: the line of the text that it starts
/// at, a space, and its JSON object; or "!1 " and what is wrong with it in place of the object.
class TextRows {
 public:
  virtual ~TextRows() = default;
  /// Takes the next piece of the text, of any length.
  virtual void add(std::string_view piece) = 0;
  /// Returns what is wrong with the end of the text; nothing: it is whole.
  virtual std::optional<BadRow> finish() = 0;
};

/// A JSON list of objects; `place` is the name of the file.
std::unique_ptr<TextRows> json_list_rows(std::string place, Spool& spool);

/// CSV with a header, through Arrow. Values are texts; an empty one without quotes is null.
std::unique_ptr<TextRows> csv_rows(std::string place, Spool& spool);

}  // namespace keel
