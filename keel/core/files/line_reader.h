#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "keel/core/files/file.h"

namespace keel {

/// The lines of a file, a pipe or standard input. A read that fails is an Error (kBadInput) with path and reason; a
/// stream of the standard library would only end.
class LineReader {
 public:
  /// Of a regular file, up to where it ends now.
  static LineReader open(const std::filesystem::path& path);
  /// Of what is open and may be a pipe; `name` is for messages.
  static LineReader of(FileHandle handle, std::string name);

  /// Reads the next line, without its newline; false at the end. A line of more than `most` bytes is cut off after one
  /// more, so that a file without newlines takes no more memory.
  bool next(std::string& line, size_t most);
  /// Whether the last line that was read had a newline at its end.
  bool was_whole() const { return whole_; }

 private:
  /// Fills some of `to` and returns how many bytes that were, 0 at the end.
  using ReadSome = std::function<size_t(std::span<char> to)>;
  explicit LineReader(ReadSome read) : read_(std::move(read)) {}

  ReadSome read_;
  std::string piece_ = std::string(size_t{64} << 10, '\0');
  size_t at_ = 0, end_ = 0;  // of what is left in it
  bool whole_ = false;
};

}  // namespace keel
