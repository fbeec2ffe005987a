#include "keel/core/files/place.h"

#include <fcntl.h>

#include <mutex>
#include <vector>

namespace keel {
namespace {

namespace fs = std::filesystem;

struct Held {
  std::string path;
  int descriptor;
};

std::mutex mutex;
std::vector<Held> all_held;

std::string plain_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

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

bool is_held(const fs::path& path) { return reached(path).folder != AT_FDCWD; }

void hold(const fs::path& path, int folder) {
  const std::lock_guard lock(mutex);
  all_held.push_back({plain_name(path.string()), folder});
}

void let_go(int folder) {
  const std::lock_guard lock(mutex);
  std::erase_if(all_held, [&](const Held& held) { return held.descriptor == folder; });
}

}  // namespace keel
