#pragma once

#include <filesystem>
#include <optional>

#include "keel/core/files/file.h"

namespace keel {

/// A folder that this process has to itself and holds by more than its name: as long as the object lives, the functions
/// of file.h reach what lies below path(), spelled as it is here, through the folder that was opened. When someone
/// moves or removes that one and puts another in its place, nothing in the other is read, written or removed.
class HeldFolder {
 public:
  /// Claims a folder until the object ends, whatever way the process does; nothing when another process has it.
  static std::optional<HeldFolder> claim(const std::filesystem::path& path);
  HeldFolder(HeldFolder&& other) noexcept = default;
  HeldFolder& operator=(HeldFolder&& other) noexcept = default;  // swaps the handles, so that each is let go of once
  ~HeldFolder();

  const std::filesystem::path& path() const { return path_; }

  /// Whether path() still leads to it.
  bool is_at_its_path() const;

  /// Where it is now; nothing when it was removed (or the system does not tell).
  std::optional<std::filesystem::path> whereabouts() const;

 private:
  HeldFolder(std::filesystem::path path, FileHandle handle);

  std::filesystem::path path_;
  FileHandle handle_;
};

}  // namespace keel
