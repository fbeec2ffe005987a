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

/// Maximum bytes of a line; longer lines are bad rows. A parsed row takes up to 20 times its size.
constexpr uint64_t kMaxLineBytes = uint64_t{16} << 20;

/// One line that is not blank.
struct TextLine {
  std::string text;     // without its newline; truncated at kMaxLineBytes
  uint64_t size = 0;    // of the whole line
  uint64_t number = 0;  // from 1, including blank lines
};

/// The lines of a text file by index. Keeps an index with one entry per 64 KB instead of the file.
class LineFile {
 public:
  /// Reads the file once to build the index. The file must not change afterwards.
  static LineFile open(const std::filesystem::path& path);

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return file_->size(); }
  /// A checksum of the file's content.
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
