#pragma once

#include <filesystem>
#include <string>

namespace keel {

/// A path as the *at() system calls take it: a name in an open folder, or in the working directory (AT_FDCWD).
struct Place {
  int folder;
  std::string name;
};

/// The path through the held folder that it lies in, or as it is.
Place reached(const std::filesystem::path& path);

/// Whether it lies in a held folder.
bool is_held(const std::filesystem::path& path);

/// The name under which something grows before it gets its own: NAME.partial. In a held folder, which is a run's, a
/// file that has it is what a killed process left, and is removed; anywhere else it may be somebody's, and where it is
/// taken the name is one of this process's own.
std::filesystem::path free_partial_name(const std::filesystem::path& path);

/// Until let_go(), what lies below the path is reached through this open folder, whatever the path leads to.
void hold(const std::filesystem::path& path, int folder);
void let_go(int folder);

}  // namespace keel
