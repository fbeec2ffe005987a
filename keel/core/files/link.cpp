#include "keel/core/files/link.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include "keel/core/files/directory_path.h"
#include "keel/core/files/failed_call.h"
#include "keel/core/files/file.h"

namespace keel {

std::optional<std::string> link_target(const std::filesystem::path& link) {
  const DirectoryPath at = directory_path(link);
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(at.directory, at.name.c_str(), target.data(), target.size());
  if (length < 0) return std::nullopt;
  target.resize(static_cast<size_t>(length));
  return target;
}

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto resolve = [](const std::filesystem::path& each) {
    std::error_code failed;
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(full_path(each), failed);
    return (failed ? full_path(each) : resolved.string()) + "/";
  };
  return resolve(path).starts_with(resolve(folder));
}

void point_link(const std::filesystem::path& link, const std::string& target) {
  const std::optional<std::string> before = link_target(link);
  if (before == target) return;
  if (!before) move_aside(link);
  const std::filesystem::path partial = free_partial_name(link);
  const DirectoryPath partial_path = directory_path(partial), link_path = directory_path(link);
  if (::symlinkat(target.c_str(), partial_path.directory, partial_path.name.c_str()) != 0)
    fail_to_write("make the link", link, errno);
  if (::renameat(partial_path.directory, partial_path.name.c_str(), link_path.directory, link_path.name.c_str()) != 0) {
    const int error = errno;
    ::unlinkat(partial_path.directory, partial_path.name.c_str(), 0);
    fail_to_write("make the link", link, error);
  }
  sync_directory(link.parent_path());
}

}  // namespace keel
