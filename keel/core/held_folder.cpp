#include "keel/core/held_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <mutex>
#include <vector>

#include "keel/core/error.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

struct Held {
  std::string path;
  int descriptor;
};

std::mutex mutex;
std::vector<Held> all_held;

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// Whether a path leads to the folder that is open.
bool leads_to(const fs::path& path, int descriptor) {
  struct stat named {}, open {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

}  // namespace

std::optional<HeldFolder> HeldFolder::claim(const fs::path& path) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    FileHandle handle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
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
  const std::lock_guard lock(mutex);
  all_held.push_back({without_trailing_slash(path_.string()), handle_.get()});
}

HeldFolder::~HeldFolder() {
  if (!handle_.is_open()) return;
  const std::lock_guard lock(mutex);
  std::erase_if(all_held, [&](const Held& held) { return held.descriptor == handle_.get(); });
}

bool HeldFolder::is_at_its_path() const { return leads_to(path_, handle_.get()); }

std::optional<fs::path> HeldFolder::whereabouts() const {
  std::string now(PATH_MAX, '\0');
  const std::string link = "/proc/self/fd/" + std::to_string(handle_.get());
  const ssize_t length = ::readlink(link.c_str(), now.data(), now.size());
  now.resize(std::max<ssize_t>(length, 0));
  return leads_to(now, handle_.get()) ? std::optional<fs::path>(now) : std::nullopt;
}

Place reached(const fs::path& path) {
  const std::string& text = path.native();
  const std::lock_guard lock(mutex);
  for (const Held& held : all_held) {
    if (!text.starts_with(held.path)) continue;
    if (text.size() == held.path.size()) return {held.descriptor, "."};
    const size_t name = text[held.path.size()] == '/' ? text.find_first_not_of('/', held.path.size()) : 0;
    if (name == std::string::npos) return {held.descriptor, "."};
    if (name > 0) return {held.descriptor, text.substr(name)};
  }
  return {AT_FDCWD, text};
}

}  // namespace keel
