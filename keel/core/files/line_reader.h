#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "keel/core/files/file.h"

namespace keel {

/// Reads the lines of a file, a pipe or standard input. A failed read throws an Error (kBadInput) with path and reason;
/// a std::istream would only end.
class LineReader {
 public:
  /// Reads a regular file up to its present size.
  static LineReader open(const std::filesystem::path& path);
  /// Reads an open descriptor, which may be a pipe. `name` is for messages.
  static LineReader of(FileHandle handle, std::string name);

  /// Reads the next line without its newline. Returns false at the end. A longer line is cut after `max_bytes` + 1
  /// bytes, which limits the memory for a file without newlines.
  bool next(std::string& line, size_t max_bytes);
  /// Returns whether the last line read ended with a newline.
  bool had_newline() const { return had_newline_; }

 private:
  /// Reads up to to.size() bytes and returns their number, 0 at the end.
  using ReadSome = std::function<size_t(std::span<char> to)>;
  explicit LineReader(ReadSome read) : read_(std::move(read)) {}

  ReadSome read_;
  std::string buffer_ = std::string(size_t{64} << 10, '\0');
  size_t position_ = 0, end_ = 0;  // the unread part of buffer_
  bool had_newline_ = false;
};

}  // namespace keel
