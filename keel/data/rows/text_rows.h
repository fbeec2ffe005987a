#pragma once

// Rows of text files that are not one JSON object per line: a JSON list of objects, and CSV with a header.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "keel/data/rows/bad_row.h"
#include "keel/data/rows/spool.h"

namespace keel {

enum class TextFormat { kJsonLines, kJsonList, kCsv };

/// By the beginning of the text and, for CSV, the name (`rows.csv`, also packed as `rows.csv.gz`). An Error where the
/// name promises CSV and the text is JSON, or where it promises a table that is not read (.tsv, .xlsx, ...).
TextFormat text_format(const std::filesystem::path& path, std::string_view beginning);

/// Cuts a text that comes in pieces into rows, each a line of the spool: the line of the text that it starts at, a
/// space, and its JSON object; or "!1 " and why it cannot be had in place of the object.
class TextRows {
 public:
  virtual ~TextRows() = default;
  virtual void add(std::string_view piece) = 0;
  /// What is wrong with the end of the text; nothing: it is whole.
  virtual std::optional<BadRow> finish() = 0;
};

/// For kJsonList and kCsv; `place` is the file's name.
std::unique_ptr<TextRows> text_rows(TextFormat format, std::string place, Spool& spool);

}  // namespace keel
