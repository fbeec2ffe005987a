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

/// Until let_go(), what lies below the path is reached through this open folder, whatever the path leads to.
void hold(const std::filesystem::path& path, int folder);
void let_go(int folder);

}  // namespace keel
