#pragma once

#include <filesystem>
#include <optional>

#include "keel/core/files/file.h"

namespace keel {

/// An exclusive lock on a directory. While the object lives, the functions of file.h reach every path below path(),
/// spelled as it is here, through the opened directory. After the directory is moved they still read and write the
/// moved one, and never what another process puts at its old path.
class LockedDirectory {
 public:
  /// Locks a directory until the object or the process ends. Returns nothing when another process holds the lock.
  static std::optional<LockedDirectory> lock(const std::filesystem::path& path);
  LockedDirectory(LockedDirectory&& other) noexcept = default;
  LockedDirectory& operator=(LockedDirectory&& other) noexcept = default;  // swaps the handles
  ~LockedDirectory();

  const std::filesystem::path& path() const { return path_; }

  /// Returns path() while that leads to the directory, its new path after a move, and nothing after a removal.
  std::optional<std::filesystem::path> current_path() const;

 private:
  LockedDirectory(std::filesystem::path path, FileHandle handle);

  std::filesystem::path path_;
  FileHandle handle_;
};

}  // namespace keel
