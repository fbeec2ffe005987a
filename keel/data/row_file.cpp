#include "keel/data/row_file.h"

#include <charconv>

#include "keel/core/error.h"
#include "keel/data/parquet_rows.h"
#include "keel/data/row_json.h"
#include "keel/data/spool.h"

namespace keel {
namespace {

/// Decompresses all of the file; returns what broke it off, if something did.
std::optional<BadRow> decompress(const std::filesystem::path& path, DataFormat format, Spool& spool) {
  constexpr uint64_t kHarmless = uint64_t{256} << 20, kMaxExpansion = 200;
  const uint64_t size = std::filesystem::file_size(path);
  const std::unique_ptr<ByteSource> source = open_compressed(path, format);
  std::string buffer(size_t{1} << 17, '\0');
  while (const size_t got = source->read(buffer)) {
    spool.write(std::string_view(buffer).substr(0, got));
    if (spool.bytes() > kHarmless && spool.bytes() / kMaxExpansion > size)
      fail(ExitCode::kBadConfiguration, path.string(), ": ", size, " bytes unpack to more than ", spool.bytes(),
           ", as a file made to fill disks does; unpack it yourself if it is sound");
  }
  if (source->damage().empty()) return std::nullopt;
  return BadRow(path.string() + ":" + std::to_string(spool.whole_lines() + 1), source->damage());
}

/// The number in front of `text`, which is taken off with the space behind it.
uint64_t take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) fail(ExitCode::kInternal, "a line of a temporary file lost its number");
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  return number;
}

void refuse_long(const TextLine& line, const std::string& place) {
  if (line.size > kMaxLineBytes)
    throw BadRow(place, "a row of " + std::to_string(line.size) + " bytes; at most " + std::to_string(kMaxLineBytes) +
                            " are read");
}

}  // namespace

RowFile RowFile::open(const std::filesystem::path& path) {
  const DataFormat format = data_format(path);
  if (format == DataFormat::kJsonLines) return RowFile(path, format, LineFile::open(path), std::nullopt);
  require_format(path, format);
  return unpack(path, format);
}

RowFile RowFile::unpack(const std::filesystem::path& path, DataFormat format) {
  Spool spool(path);
  std::optional<BadRow> damage;
  if (format == DataFormat::kParquet) {
    unpack_parquet(path, spool);
  } else {
    damage = decompress(path, format, spool);
  }
  const auto last_line = damage ? Spool::LastLine::kDropUnlessWhole : Spool::LastLine::kKeep;
  LineFile lines = std::move(spool).finish(last_line);
  return RowFile(path, format, std::move(lines), std::move(damage));
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
  if (format_ == DataFormat::kParquet) return parse_unpacked(line);
  Row row{nullptr, path_.string() + ":" + std::to_string(line.number)};
  refuse_long(line, row.place);
  std::string_view text = line.text;
  if (line.number == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // editors on Windows write it
  row.value = parse_row(text, row.place);
  return row;
}

Row RowFile::parse_unpacked(const TextLine& line) const {
  std::string_view text = line.text;
  Row row{nullptr, path_.string() + ", row group " + std::to_string(take_number(text) + 1)};
  row.place += ", row " + std::to_string(take_number(text) + 1) + " (both from 1)";
  refuse_long(line, row.place);
  if (text.starts_with("!")) {
    text.remove_prefix(1);
    const uint64_t lost = take_number(text);
    const std::string what =
        lost > 1 ? "this row and the " + std::to_string(lost - 1) + " after it are unreadable: " : "unreadable: ";
    throw BadRow(row.place, what + std::string(text), lost);
  }
  row.value = parse_row(text, row.place);
  return row;
}

}  // namespace keel
