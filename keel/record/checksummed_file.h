#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"

namespace keel {

/// The CRC-32C of each line of a file, without its newline. Checkpoints store them to detect changed lines.
using LineChecksums = std::vector<uint32_t>;

/// An append-only file of lines with their checksums.
class ChecksummedFile {
 public:
  /// Opens or creates a file. Removes an incomplete last line, which a crash leaves.
  static ChecksummedFile open(const std::filesystem::path& path);

  void add(std::string_view line) {
    file_.append_line(line);
    checksums_.push_back(crc32c(line));
  }
  /// Returns after all lines are on the disk.
  void sync() { file_.sync(); }

  const LineChecksums& checksums() const { return checksums_; }
  bool is_at_its_path() const { return file_.is_at_its_path(); }

 private:
  ChecksummedFile(AppendFile file, LineChecksums checksums)
      : file_(std::move(file)), checksums_(std::move(checksums)) {}

  AppendFile file_;
  LineChecksums checksums_;
};

/// Returns how the file differs from the expected lines ("line 17 was changed"), if it does. Ignores further lines.
std::optional<std::string> find_changed_line(const std::filesystem::path& path, const LineChecksums& expected);

/// Truncates the file to its first `count` lines and syncs it. Does nothing if the file is missing.
void truncate_to_lines(const std::filesystem::path& path, size_t count);

/// Replaces a changed file by those expected lines that it still has, in order. Returns the path of a copy of the old
/// file, unless it was missing.
std::optional<std::filesystem::path> restore_unchanged_lines(const std::filesystem::path& path,
                                                             const LineChecksums& expected);

/// Eight hexadecimal digits per line, for JSON.
std::string to_hex(const LineChecksums& checksums);
/// Returns std::nullopt for an invalid text.
std::optional<LineChecksums> from_hex(std::string_view text);

}  // namespace keel
