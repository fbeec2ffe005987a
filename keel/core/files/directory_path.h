#pragma once

#include <filesystem>
#include <string>

namespace keel {

/// A path as the *at() system calls take it: a name relative to an open directory, or to the working directory
/// (AT_FDCWD).
struct DirectoryPath {
  int directory;
  std::string name;
};

/// Returns the path relative to the locked directory that contains it, or the path itself.
DirectoryPath directory_path(const std::filesystem::path& path);

/// Returns a path for libraries that open files by name, which follows a locked directory as well (/proc/self/fd).
std::string path_for_libraries(const std::filesystem::path& path);

/// Returns the temporary name under which a file is written: NAME.partial. In a locked directory, an existing file of
/// that name is left over from a killed process and is removed. Elsewhere it may be a user's file, and a free name is
/// chosen.
std::filesystem::path free_partial_name(const std::filesystem::path& path);

/// Resolves paths below `path` through this open directory until release(), even if it is moved.
void redirect(const std::filesystem::path& path, int directory);
void release(int directory);

}  // namespace keel
