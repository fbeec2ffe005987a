#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/files/hash.h"
#include "keel/data/rows/unchanging_file.h"

namespace keel {

/// Bytes of one line that are read at most; longer lines are bad rows. As a tree, a row takes up to 20 times its size.
constexpr uint64_t kMaxLineBytes = uint64_t{16} << 20;

/// One line that is not blank.
struct TextLine {
  std::string text;     // without its newline; cut where the line is longer than kMaxLineBytes
  uint64_t size = 0;    // of the whole line
  uint64_t number = 0;  // from 1, blank lines counted
};

/// Rows as lines of text, found again by number without holding the file: an index has the first of every 64 KB.
class LineFile {
 public:
  /// Reads the file once, for the index. Rows read later must be those of then.
  static LineFile open(const std::filesystem::path& path);

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return file_->size(); }
  /// Changes with every byte of the file.
  uint32_t checksum() const { return checksum_.value(); }
  TextLine read(uint64_t row) const;
  void for_each(const std::function<void(const TextLine&)>& visit) const;

 private:
  struct Block {
    uint64_t row, offset, lines_before;
  };

  void add(const TextLine& line, uint64_t offset);

  std::shared_ptr<const UnchangingFile> file_;
  std::vector<Block> blocks_;
  uint64_t rows_ = 0;
  Crc32c checksum_;
};

}  // namespace keel
