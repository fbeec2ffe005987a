#include "keel/data/rows/row_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/strings.h"
#include "keel/data/rows/decompressor.h"
#include "keel/data/rows/parquet_rows.h"
#include "keel/data/rows/row_json.h"
#include "keel/data/rows/text_rows.h"

namespace keel {
namespace {

/// Receives the text of a file: writes JSON lines to the spool unchanged, other formats through a TextRows.
class TextSink {
 public:
  TextSink(const std::filesystem::path& path, Spool& spool) : path_(path), spool_(spool) {}

  void write(std::string_view piece) {
    if (piece.empty()) return;
    if (!std::exchange(begun_, true)) {
      format_ = text_format(path_, piece);
      if (format_ != TextFormat::kJsonLines && piece.starts_with(kByteOrderMark))
        piece.remove_prefix(kByteOrderMark.size());
      if (format_ == TextFormat::kJsonList) rows_ = json_list_rows(path_.string(), spool_);
      if (format_ == TextFormat::kCsv) rows_ = csv_rows(path_.string(), spool_);
    }
    if (rows_)
      rows_->add(piece);
    else
      spool_.write(piece);
  }
  /// Returns the error at the end of the text, if any.
  std::optional<BadRow> finish() { return rows_ ? rows_->finish() : std::nullopt; }
  TextFormat format() const { return format_; }

 private:
  const std::filesystem::path& path_;
  Spool& spool_;
  bool begun_ = false;
  TextFormat format_ = TextFormat::kJsonLines;
  std::unique_ptr<TextRows> rows_;
};

/// Detects the format of a file that is not compressed.
TextFormat detect_text_format(const std::filesystem::path& path) {
  constexpr uint64_t kBeginning = 4096;
  const InputFile file = InputFile::open(path);
  std::string beginning(static_cast<size_t>(std::min(file.size(), kBeginning)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(beginning)));
  return text_format(path, beginning);
}

/// Passes the text of a file to the sink. Returns the error if it is truncated.
std::optional<BadRow> read_text(const InputFile& file, DataFormat format, TextSink& sink, const Spool& spool) {
  const std::string path = file.path().string();
  if (format != DataFormat::kText) {
    const std::string damage = decompress(path, format, [&](std::string_view piece) { sink.write(piece); });
    if (damage.empty()) return std::nullopt;
    return BadRow(path + ":" + std::to_string(spool.whole_lines() + 1), damage);
  }
  std::string buffer(size_t{1} << 20, '\0');
  for (uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    buffer.resize(static_cast<size_t>(std::min<uint64_t>(buffer.size(), file.size() - offset)));
    file.read_at(offset, std::as_writable_bytes(std::span(buffer)));
    sink.write(buffer);
  }
  return std::nullopt;
}

/// Parquet compresses repeated values well, such as a long prompt that all rows share, so its limits are higher.
UnpackLimits limits_for(DataFormat format) {
  UnpackLimits limits;
  if (format == DataFormat::kParquet) limits.expansion = 1000;
  return limits;
}

/// Removes a leading number and the following space from `text`; returns the number.
uint64_t take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) fail(ExitCode::kInternal, "a line of a temporary file has no number");
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  return number;
}

bool looks_like_csv_header(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && text.find(',') != std::string_view::npos;
}

void reject_long_line(const TextLine& line, const std::string& place) {
  if (line.size > kMaxLineBytes)
    throw BadRow(place, "a row of at least " + std::to_string(line.size) + " bytes (at most 16 MiB are read). Fix: " +
                            "shorten it, or move large content to a file that the reward reads");
}

}  // namespace

RowFile RowFile::open(const std::filesystem::path& path, std::optional<UnpackLimits> limits) {
  const DataFormat format = data_format(path);
  if (format == DataFormat::kText && detect_text_format(path) == TextFormat::kJsonLines)
    return RowFile(path, format, TextFormat::kJsonLines, LineFile::open(path), std::nullopt);
  return unpack(path, format, limits.value_or(limits_for(format)));
}

RowFile RowFile::unpack(const std::filesystem::path& path, DataFormat format, const UnpackLimits& limits) {
  const InputFile file = InputFile::open(path);
  Spool spool(path, file.size(), limits);
  TextSink sink(path, spool);
  std::optional<BadRow> damage;
  if (format == DataFormat::kParquet)
    unpack_parquet(path, spool);
  else
    damage = read_text(file, format, sink, spool);
  if (file.was_changed())
    fail(ExitCode::kBadInput, path.string(), ": was changed while it was being unpacked. Fix: do not change files ",
         "that are being read, and start again");
  if (!damage) damage = sink.finish();
  LineFile lines = spool.finish(damage ? Spool::LastLine::kDropUnlessWhole : Spool::LastLine::kKeep);
  return RowFile(path, format, sink.format(), std::move(lines), std::move(damage));
}

std::string RowFile::fingerprint() const { return Json::array({rows(), lines_.bytes(), lines_.checksum()}).dump(); }

Row RowFile::read(uint64_t row) const {
  if (damage_ && row == lines_.rows()) throw *damage_;
  return parse(lines_.read(row));
}

void RowFile::for_each(const std::function<void(Row)>& on_row, const std::function<void(const BadRow&)>& on_bad) const {
  lines_.for_each([&](const TextLine& line) {
    std::optional<Row> row;
    try {
      row = parse(line);
    } catch (const BadRow& bad) {
      return on_bad(bad);
    }
    on_row(std::move(*row));
  });
  if (damage_) on_bad(*damage_);
}

Row RowFile::parse(const TextLine& line) const {
  if (format_ == DataFormat::kParquet || text_ != TextFormat::kJsonLines) return parse_unpacked(line);
  Row row{nullptr, path_.string() + ":" + std::to_string(line.number)};
  reject_long_line(line, row.place);
  std::string_view text = line.text;
  if (line.number == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (line.number == 1 && looks_like_csv_header(text))
    throw BadRow(row.place, "not JSON. Fix: if it is a CSV file, rename it to .csv");
  row.value = parse_row(text, row.place);
  return row;
}

Row RowFile::parse_unpacked(const TextLine& line) const {
  std::string_view text = line.text;
  Row row{nullptr, path_.string()};
  if (format_ == DataFormat::kParquet) {
    row.place += ", row group " + std::to_string(take_number(text) + 1);
    row.place += ", row " + std::to_string(take_number(text) + 1) + " (both from 1)";
  } else {
    row.place += ":" + std::to_string(take_number(text));
  }
  reject_long_line(line, row.place);
  if (text.starts_with("!")) {
    text.remove_prefix(1);
    const uint64_t unreadable = take_number(text);
    const std::string prefix = unreadable > 1
                                   ? "this row and the " + std::to_string(unreadable - 1) + " after it are unreadable: "
                               : format_ == DataFormat::kParquet ? "unreadable: "
                                                                 : "";
    throw BadRow(row.place, prefix + std::string(text), unreadable);
  }
  row.value = parse_row(text, row.place);
  return row;
}

}  // namespace keel
