#include "keel/core/files/directory_path.h"

#include <fcntl.h>

#include <mutex>
#include <vector>

namespace keel {
namespace {

namespace fs = std::filesystem;

struct Redirect {
  std::string path;
  int directory;
};

std::mutex mutex;
std::vector<Redirect> redirects;

}  // namespace

DirectoryPath directory_path(const fs::path& path) {
  const std::string& text = path.native();
  const std::lock_guard lock(mutex);
  for (const Redirect& redirect : redirects) {
    if (!text.starts_with(redirect.path)) continue;
    const size_t name = text.find_first_not_of('/', redirect.path.size());
    if (name == std::string::npos) return {redirect.directory, "."};
    if (name > redirect.path.size()) return {redirect.directory, text.substr(name)};
  }
  return {AT_FDCWD, text};
}

std::string path_for_libraries(const fs::path& path) {
  const DirectoryPath resolved = directory_path(path);
  return resolved.directory == AT_FDCWD ? resolved.name
                                        : "/proc/self/fd/" + std::to_string(resolved.directory) + "/" + resolved.name;
}

void redirect(const fs::path& path, int directory) {
  std::string plain = path.string();
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  const std::lock_guard lock(mutex);
  redirects.push_back({plain, directory});
}

void release(int directory) {
  const std::lock_guard lock(mutex);
  std::erase_if(redirects, [&](const Redirect& redirect) { return redirect.directory == directory; });
}

}  // namespace keel
