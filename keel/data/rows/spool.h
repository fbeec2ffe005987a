#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/core/files/file.h"
#include "keel/data/rows/line_file.h"

namespace keel {

/// How much a packed file may unfold to, on a disk that others use too. JSON lines have no such limit.
struct UnpackLimits {
  uint64_t harmless = uint64_t{256} << 20;  // whatever the file's size
  uint64_t expansion = 200;                 // times the file's size, beyond that
  uint64_t total = uint64_t{64} << 30;
};

/// A temporary file of lines without a name: the system removes it when the process ends, whatever way it ends. It is
/// in TMPDIR, else /var/tmp, which unlike /tmp is a disk.
class Spool {
 public:
  /// `origin` is the data file whose rows it takes, of so many bytes; errors name it.
  Spool(const std::filesystem::path& origin, uint64_t origin_bytes, const UnpackLimits& limits);

  /// An Error (kBadInput) beyond the limits.
  void write(std::string_view bytes);
  /// Lines that were ended by a newline so far.
  uint64_t whole_lines() const { return whole_lines_; }

  enum class LastLine { kKeep, kDropUnlessWhole };
  /// A file that broke off has, at its end, a part of a line that says nothing.
  LineFile finish(LastLine last_line);

 private:
  uint64_t bytes() const { return written_ + pending_.size(); }
  void flush();
  [[noreturn]] void refuse(int error) const;

  std::string origin_, folder_;
  uint64_t origin_bytes_;
  UnpackLimits limits_;
  FileHandle handle_;
  std::string pending_;
  uint64_t written_ = 0;
  uint64_t whole_bytes_ = 0, whole_lines_ = 0;  // up to and including the last newline
};

}  // namespace keel
