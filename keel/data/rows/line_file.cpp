#include "keel/data/rows/line_file.h"

#include <algorithm>
#include <memory>

#include "keel/core/error.h"
#include "keel/data/rows/unchanging_file.h"

namespace keel {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
constexpr size_t kScanBytes = size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Whether there is more than blanks in a part of a line that starts at `offset` of its file.
bool has_content(std::string_view part, uint64_t offset) {
  for (; offset < kByteOrderMark.size() && part.starts_with(kByteOrderMark[offset]); ++offset) part.remove_prefix(1);
  return part.find_first_not_of(" \t\r") != std::string_view::npos;
}

/// Feeds the bytes from `offset` to `end` to the scanner, `piece` at a time.
void scan(const LineFile::ReadAt& read_at, uint64_t offset, uint64_t end, size_t piece, LineScanner& scanner) {
  std::string buffer(static_cast<size_t>(std::min<uint64_t>(piece, end - offset)), '\0');
  while (offset < end) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(buffer.size(), end - offset));
    read_at(offset, std::as_writable_bytes(std::span(buffer).first(size)));
    if (!scanner.add(std::string_view(buffer).substr(0, size))) return;
    offset += size;
  }
  scanner.finish();
}

}  // namespace

bool LineScanner::add(std::string_view bytes) {
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

bool LineScanner::end_line() {
  const bool go_on = !has_content_ || on_line_(line_, begin_);
  line_.text.clear();
  line_.size = 0;
  ++line_.number;
  has_content_ = false;
  begin_ = offset_;
  return go_on;
}

void LineIndex::add(const TextLine& line, uint64_t offset) {
  if (blocks_.empty() || offset - blocks_.back().offset >= kBlockBytes)
    blocks_.push_back({rows_, offset, line.number - 1});
  ++rows_;
}

const LineIndex::Block& LineIndex::block_of(uint64_t row) const {
  if (row >= rows_) fail(ExitCode::kInternal, "row ", row, " of ", rows_);
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), row,
                                      [](uint64_t wanted, const Block& block) { return wanted < block.row; });
  return *(after - 1);
}

LineFile LineFile::open(const std::filesystem::path& path) {
  LineIndex index;
  LineScanner scanner(
      [&](const TextLine& line, uint64_t offset) {
        index.add(line, offset);
        return true;
      },
      /*keep_text=*/false);
  const auto file = std::make_shared<const UnchangingFile>(path, [&](std::string_view piece) {
    index.add_bytes(piece);
    scanner.add(piece);
  });
  scanner.finish();
  const ReadAt read_at = [file](uint64_t offset, std::span<std::byte> to) { file->read_at(offset, to); };
  return LineFile(read_at, file->size(), std::move(index));
}

TextLine LineFile::read(uint64_t row) const {
  const LineIndex::Block& block = index_.block_of(row);
  uint64_t at = block.row;
  TextLine found;
  LineScanner scanner(
      [&](const TextLine& line, uint64_t) {
        if (at++ < row) return true;
        found = line;
        return false;
      },
      /*keep_text=*/true, block.offset, block.lines_before);
  scan(read_at_, block.offset, bytes_, kBlockBytes, scanner);
  return found;
}

void LineFile::for_each(const std::function<void(const TextLine&)>& visit) const {
  LineScanner scanner(
      [&](const TextLine& line, uint64_t) {
        visit(line);
        return true;
      },
      /*keep_text=*/true);
  scan(read_at_, 0, bytes_, kScanBytes, scanner);
}

}  // namespace keel
