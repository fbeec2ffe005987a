#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "keel/core/json.h"
#include "keel/data/rows/bad_row.h"
#include "keel/data/rows/data_format.h"
#include "keel/data/rows/line_file.h"
#include "keel/data/rows/spool.h"

namespace keel {

/// One row and its place: "train.jsonl:17", "train.parquet, row group 1, row 17 (both from 1)".
struct Row {
  Json value;
  std::string place;
};

/// The rows of one data file, by index. JSON lines are read in place; lists, CSV, compressed files and Parquet are
/// unpacked once into a temporary file. Blank lines are skipped.
class RowFile {
 public:
  /// `limits` apply to packed files; default: those of the format.
  static RowFile open(const std::filesystem::path& path, std::optional<UnpackLimits> limits = std::nullopt);

  const std::filesystem::path& path() const { return path_; }
  /// The number of rows, including bad ones.
  uint64_t rows() const { return lines_.rows() + (damage_ ? 1 : 0); }
  /// A hash of the rows as text, which does not depend on the compression.
  std::string fingerprint() const;
  /// Throws BadRow if the row is unreadable.
  Row read(uint64_t row) const;
  /// Visits all rows in order; unreadable ones go to `on_bad`.
  void for_each(const std::function<void(Row)>& on_row, const std::function<void(const BadRow&)>& on_bad) const;

  /// Returns whether the rows are the file's own lines, and not what another format was unpacked to.
  bool is_json_lines() const { return format_ == DataFormat::kText && text_ == TextFormat::kJsonLines; }

 private:
  RowFile(std::filesystem::path path, DataFormat format, TextFormat text, LineFile lines, std::optional<BadRow> damage)
      : path_(std::move(path)), format_(format), text_(text), lines_(std::move(lines)), damage_(std::move(damage)) {}
  static RowFile unpack(const std::filesystem::path& path, DataFormat format, const UnpackLimits& limits);
  Row parse(const TextLine& line) const;
  Row parse_unpacked(const TextLine& line) const;

  std::filesystem::path path_;
  DataFormat format_;
  TextFormat text_;
  LineFile lines_;
  std::optional<BadRow> damage_;  // of a truncated compressed file; counts as its last row
};

}  // namespace keel
