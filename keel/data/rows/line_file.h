#pragma once

// Rows as lines of text, found again by number without holding the file: an index of places every 64 KB of lines.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/files/hash.h"

namespace keel {

/// Bytes of one line that are read at most; longer lines are bad rows. As a tree, a row takes up to 20 times its size.
constexpr uint64_t kMaxLineBytes = uint64_t{16} << 20;

/// One line that is not blank.
struct TextLine {
  std::string text;     // without its newline; cut where the line is longer than kMaxLineBytes
  uint64_t size = 0;    // of the whole line
  uint64_t number = 0;  // from 1, blank lines counted
};

/// Cuts bytes that come in pieces into lines.
class LineScanner {
 public:
  /// Called for each line that is not blank, with the byte it starts at; false ends the scan.
  using OnLine = std::function<bool(const TextLine&, uint64_t offset)>;
  /// `keep_text` false leaves the texts empty, for counting.
  LineScanner(OnLine on_line, bool keep_text, uint64_t offset = 0, uint64_t lines_before = 0)
      : on_line_(std::move(on_line)), keep_text_(keep_text), offset_(offset), begin_(offset) {
    line_.number = lines_before + 1;
  }

  /// Whether to go on.
  bool add(std::string_view bytes);
  /// The last line may have no newline.
  void finish() { end_line(); }

 private:
  bool end_line();

  OnLine on_line_;
  bool keep_text_, has_content_ = false;
  uint64_t offset_, begin_;  // of the next byte, of the line
  TextLine line_;
};

/// What one reading of a file tells: where rows are (the first of each block of lines), and its checksum.
class LineIndex {
 public:
  struct Block {
    uint64_t row, offset, lines_before;
  };

  /// Every row that is not blank, in order.
  void add(const TextLine& line, uint64_t offset);
  /// Every byte, in order.
  void add_bytes(std::string_view bytes) { checksum_.update(bytes); }
  const Block& block_of(uint64_t row) const;
  uint64_t rows() const { return rows_; }
  uint32_t checksum() const { return checksum_.value(); }

 private:
  std::vector<Block> blocks_;
  uint64_t rows_ = 0;
  Crc32c checksum_;
};

/// The rows of a file of lines.
class LineFile {
 public:
  using ReadAt = std::function<void(uint64_t offset, std::span<std::byte> to)>;

  LineFile(ReadAt read_at, uint64_t bytes, LineIndex index)
      : read_at_(std::move(read_at)), bytes_(bytes), index_(std::move(index)) {}
  /// Reads the file once, for the index. Rows read later must be those of then.
  static LineFile open(const std::filesystem::path& path);

  uint64_t rows() const { return index_.rows(); }
  uint64_t bytes() const { return bytes_; }
  uint32_t checksum() const { return index_.checksum(); }
  TextLine read(uint64_t row) const;
  void for_each(const std::function<void(const TextLine&)>& visit) const;

 private:
  ReadAt read_at_;
  uint64_t bytes_;
  LineIndex index_;
};

}  // namespace keel
