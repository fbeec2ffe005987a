#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/core/files/file.h"
#include "keel/data/rows/line_file.h"

namespace keel {

/// Limits on the unpacked size of a file. JSON lines have no limit.
struct UnpackLimits {
  uint64_t harmless = uint64_t{256} << 20;  // always allowed
  uint64_t expansion = 200;                 // beyond `harmless`: maximum ratio to the file size
  uint64_t total = uint64_t{64} << 30;
};

/// An unlinked temporary file of lines, which the system removes when the process ends. It is in TMPDIR, else in
/// /var/tmp, which unlike /tmp is on a disk.
class Spool {
 public:
  /// `origin` is the data file that is unpacked, for messages and limits.
  Spool(const std::filesystem::path& origin, uint64_t origin_bytes, const UnpackLimits& limits);

  /// Exceeding the limits is an Error (kBadInput).
  void write(std::string_view bytes);
  /// The number of complete lines so far.
  uint64_t whole_lines() const { return whole_lines_; }

  enum class LastLine { kKeep, kDropUnlessWhole };
  /// kDropUnlessWhole drops the incomplete last line of a truncated file.
  LineFile finish(LastLine last_line);

 private:
  uint64_t bytes() const { return written_ + pending_.size(); }
  void flush();
  [[noreturn]] void fail_on_io(int error) const;

  std::string origin_, folder_;
  uint64_t origin_bytes_;
  UnpackLimits limits_;
  FileHandle handle_;
  std::string pending_;
  uint64_t written_ = 0;
  uint64_t whole_bytes_ = 0, whole_lines_ = 0;  // up to and including the last newline
};

}  // namespace keel
