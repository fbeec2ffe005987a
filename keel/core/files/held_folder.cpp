#include "keel/core/files/held_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "keel/core/error.h"
#include "keel/core/files/failed_call.h"
#include "keel/core/files/place.h"
#include "keel/core/files/system_call.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

/// Whether a path leads to the folder that is open.
bool leads_to(const fs::path& path, int descriptor) {
  struct stat named{}, open{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

}  // namespace

std::optional<HeldFolder> HeldFolder::claim(const fs::path& path) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    FileHandle handle(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!handle.is_open()) fail_to_write("open the folder", path, errno);
    // On a filesystem without locks: better unguarded than refused.
    if (::flock(handle.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
    // Else it was replaced before it was locked, and the lock guards a folder that nobody finds any more.
    if (leads_to(path, handle.get())) return HeldFolder(path, std::move(handle));
  }
  fail(ExitCode::kHealthGuard, "cannot claim the folder ", path, ": it is replaced by another again and again; stop ",
       "what does that, or choose another folder");
}

HeldFolder::HeldFolder(fs::path path, FileHandle handle) : path_(std::move(path)), handle_(std::move(handle)) {
  hold(path_, handle_.get());
}

HeldFolder::~HeldFolder() {
  if (handle_.is_open()) let_go(handle_.get());
}

bool HeldFolder::is_at_its_path() const { return leads_to(path_, handle_.get()); }

std::optional<fs::path> HeldFolder::whereabouts() const {
  std::string now(PATH_MAX, '\0');
  const std::string link = "/proc/self/fd/" + std::to_string(handle_.get());
  const ssize_t length = ::readlink(link.c_str(), now.data(), now.size());
  now.resize(std::max<ssize_t>(length, 0));
  return leads_to(now, handle_.get()) ? std::optional<fs::path>(now) : std::nullopt;
}

}  // namespace keel
