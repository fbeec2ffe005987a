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

/// A CRC-32C of each line of a file, without its newline. A checkpoint remembers them, so that damage to what was
/// written before it is found, and in which line.
using LineChecksums = std::vector<uint32_t>;

/// A file of lines that grows with a run.
class GrowingFile {
 public:
  /// Opens or creates; a last line without its newline was torn by a crash and is cut off.
  static GrowingFile open(const std::filesystem::path& path);

  void add(std::string_view line) {
    file_.append_line(line);
    checksums_.push_back(crc32c(line));
  }
  /// Returns when everything added is on the disk.
  void sync() { file_.sync(); }

  const LineChecksums& checksums() const { return checksums_; }
  bool has_its_name() const { return file_.has_its_name(); }

 private:
  GrowingFile(AppendFile file, LineChecksums checksums) : file_(std::move(file)), checksums_(std::move(checksums)) {}

  AppendFile file_;
  LineChecksums checksums_;
};

/// In which way a file does not begin with the lines that were remembered: "line 17 is not what was written there".
/// What follows them is nobody's concern.
std::optional<std::string> find_changed_line(const std::filesystem::path& path, const LineChecksums& remembered);

/// Cuts off what follows the first `count` lines, durably. Nothing where there is no file.
void cut_to_lines(const std::filesystem::path& path, size_t count);

/// Leaves of a changed file the remembered lines that it still has, in their order; the file as it was is kept beside
/// it. Returns its new name; a file that is missing has none.
std::optional<std::filesystem::path> leave_unchanged_lines(const std::filesystem::path& path,
                                                           const LineChecksums& remembered);

/// For JSON: eight hexadecimal digits for each line.
std::string to_hex(const LineChecksums& checksums);
/// Nothing where the text is not that.
std::optional<LineChecksums> from_hex(std::string_view text);

}  // namespace keel
