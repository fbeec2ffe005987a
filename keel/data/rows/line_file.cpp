#include "keel/data/rows/line_file.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "keel/core/error.h"
#include "keel/data/rows/data_format.h"

namespace keel {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
constexpr size_t kScanBytes = size_t{1} << 20;

/// Returns whether a part of a line, at `offset` of the file, is not blank. Ignores a byte order mark.
bool has_content(std::string_view part, uint64_t offset) {
  for (; offset < kByteOrderMark.size() && part.starts_with(kByteOrderMark[offset]); ++offset) part.remove_prefix(1);
  return part.find_first_not_of(" \t\r") != std::string_view::npos;
}

/// Splits a stream of bytes into lines.
class LineScanner {
 public:
  /// Called for each line that is not blank, with its byte offset. Returns whether to continue.
  using OnLine = std::function<bool(const TextLine&, uint64_t offset)>;
  /// `keep_text` false leaves the texts empty, for counting.
  LineScanner(OnLine on_line, bool keep_text, uint64_t offset = 0, uint64_t lines_before = 0)
      : on_line_(std::move(on_line)), keep_text_(keep_text), offset_(offset), line_offset_(offset) {
    line_.number = lines_before + 1;
  }

  /// Returns whether to continue.
  bool add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t newline = bytes.find('\n');
      const std::string_view part = bytes.substr(0, newline);
      has_content_ = has_content_ || has_content(part, offset_);
      line_.size += part.size();
      offset_ += part.size();
      if (keep_text_ && line_.text.size() < kMaxLineBytes)
        line_.text.append(part.substr(0, static_cast<size_t>(kMaxLineBytes - line_.text.size())));
      if (newline == std::string_view::npos) return true;
      ++offset_;
      if (!end_line()) return false;
      bytes.remove_prefix(newline + 1);
    }
    return true;
  }

  /// The last line may have no newline.
  void finish() { end_line(); }

 private:
  bool end_line() {
    const bool continues = !has_content_ || on_line_(line_, line_offset_);
    line_.text.clear();
    line_.size = 0;
    ++line_.number;
    has_content_ = false;
    line_offset_ = offset_;
    return continues;
  }

  OnLine on_line_;
  bool keep_text_, has_content_ = false;
  uint64_t offset_, line_offset_;  // of the next byte; of the line
  TextLine line_;
};

/// Feeds the bytes from `offset` on to the scanner, `piece` at a time.
void scan(const UnchangingFile& file, uint64_t offset, size_t piece, LineScanner& scanner) {
  std::string buffer(static_cast<size_t>(std::min<uint64_t>(piece, file.size() - offset)), '\0');
  while (offset < file.size()) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(buffer.size(), file.size() - offset));
    file.read_at(offset, std::as_writable_bytes(std::span(buffer).first(size)));
    if (!scanner.add(std::string_view(buffer).substr(0, size))) return;
    offset += size;
  }
  scanner.finish();
}

}  // namespace

LineFile LineFile::open(const std::filesystem::path& path) {
  LineFile lines;
  LineScanner scanner(
      [&](const TextLine& line, uint64_t offset) {
        lines.add(line, offset);
        return true;
      },
      /*keep_text=*/false);
  lines.file_ = std::make_shared<const UnchangingFile>(path, [&](std::string_view piece) {
    lines.checksum_.update(piece);
    scanner.add(piece);
  });
  scanner.finish();
  return lines;
}

void LineFile::add(const TextLine& line, uint64_t offset) {
  if (blocks_.empty() || offset - blocks_.back().offset >= kBlockBytes)
    blocks_.push_back({rows_, offset, line.number - 1});
  ++rows_;
}

TextLine LineFile::read(uint64_t row) const {
  if (row >= rows_) fail(ExitCode::kInternal, "row ", row, " of ", rows_);
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), row,
                                      [](uint64_t index, const Block& block) { return index < block.row; });
  const Block& block = *(after - 1);
  uint64_t index = block.row;
  TextLine found;
  LineScanner scanner(
      [&](const TextLine& line, uint64_t) {
        if (index++ < row) return true;
        found = line;
        return false;
      },
      /*keep_text=*/true, block.offset, block.lines_before);
  scan(*file_, block.offset, kBlockBytes, scanner);
  return found;
}

void LineFile::for_each(const std::function<void(const TextLine&)>& visit) const {
  LineScanner scanner(
      [&](const TextLine& line, uint64_t) {
        visit(line);
        return true;
      },
      /*keep_text=*/true);
  scan(*file_, 0, kScanBytes, scanner);
}

}  // namespace keel
