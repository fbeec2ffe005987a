#include "keel/core/files/locked_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "keel/core/files/directory_path.h"
#include "keel/core/files/failed_call.h"
#include "keel/core/files/retry_on_eintr.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

bool leads_to(const fs::path& path, int descriptor) {
  struct stat named {
  }, open{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

}  // namespace

std::optional<LockedDirectory> LockedDirectory::lock(const fs::path& path) {
  FileHandle handle(retry_on_eintr([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!handle.is_open()) fail_to_write("open the folder", path, errno);
  // Other errors mean a filesystem without locks, where the directory is used unguarded.
  if (::flock(handle.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return LockedDirectory(path, std::move(handle));
}

LockedDirectory::LockedDirectory(fs::path path, FileHandle handle)
    : path_(std::move(path)), handle_(std::move(handle)) {
  redirect(path_, handle_.get());
}

LockedDirectory::~LockedDirectory() {
  if (handle_.is_open()) release(handle_.get());
}

std::optional<fs::path> LockedDirectory::current_path() const {
  if (leads_to(path_, handle_.get())) return path_;
  std::string current(PATH_MAX, '\0');
  const std::string link = "/proc/self/fd/" + std::to_string(handle_.get());
  const ssize_t length = ::readlink(link.c_str(), current.data(), current.size());
  current.resize(std::max<ssize_t>(length, 0));
  return leads_to(current, handle_.get()) ? std::optional<fs::path>(current) : std::nullopt;
}

}  // namespace keel
