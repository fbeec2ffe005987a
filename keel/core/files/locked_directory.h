#pragma once

#include <filesystem>
#include <optional>

#include "keel/core/files/file.h"

namespace keel {

/// An exclusive lock on a directory. While the object lives, the functions of file.h resolve every path that starts
/// with path(), in the same spelling, relative to the opened directory. After the directory is moved they still read
/// and write the moved one, and never what another process puts at its old path.
class LockedDirectory {
 public:
  /// Locks a directory until the object or the process ends. Returns nullopt if another process holds the lock.
  static std::optional<LockedDirectory> lock(const std::filesystem::path& path);
  LockedDirectory(LockedDirectory&& other) noexcept = default;
  LockedDirectory& operator=(LockedDirectory&& other) noexcept = default;  // swaps the handles
  ~LockedDirectory();

  const std::filesystem::path& path() const { return path_; }

  /// Returns path() if it still is the directory's path, the new path after a move, or nullopt after a removal.
  std::optional<std::filesystem::path> current_path() const;

 private:
  LockedDirectory(std::filesystem::path path, FileHandle handle);

  std::filesystem::path path_;
  FileHandle handle_;
};

}  // namespace keel
