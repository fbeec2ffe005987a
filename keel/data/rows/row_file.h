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

/// One row and where it stands: "train.jsonl:17", "train.parquet, row group 1, row 17 (both from 1)".
struct Row {
  Json value;
  std::string place;
};

/// The rows of one data file, by number. JSON lines are read where they lie; lists, CSV, compressed files and Parquet
/// are unpacked once, into a temporary file. Blank lines are no rows.
class RowFile {
 public:
  /// `limits` are for packed files; without them those of its format.
  static RowFile open(const std::filesystem::path& path, std::optional<UnpackLimits> limits = std::nullopt);

  const std::filesystem::path& path() const { return path_; }
  /// Bad ones included.
  uint64_t rows() const { return lines_.rows() + (damage_ ? 1 : 0); }
  /// Of the rows as text: a file that was only compressed in another way has the same.
  std::string fingerprint() const;
  /// A BadRow where there is none to be had.
  Row read(uint64_t row) const;
  /// All rows in order, bad ones as what is wrong with them.
  void for_each(const std::function<void(Row)>& on_row, const std::function<void(const BadRow&)>& on_bad) const;

  /// Whether the rows are the file's own lines, and not what another format was unpacked to.
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
  std::optional<BadRow> damage_;  // where a compressed file broke off; counts as its last row
};

}  // namespace keel
