#include "keel/model/folder/hub_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>

#include "keel/core/files/file.h"

namespace keel {
namespace {

constexpr const char* kModels = "models--";

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

std::string home() {
  if (const std::string folder = environment("HOME"); !folder.empty()) return folder;
  const passwd* user = getpwuid(getuid());
  return user != nullptr ? user->pw_dir : "";
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t i = 0; (i = text.find(from, i)) != std::string::npos; i += to.size()) text.replace(i, from.size(), to);
}

/// Expands `~`, `$NAME` and `${NAME}` like Python's expanduser and expandvars; unset variables are kept.
std::string expand(const std::string& path) {
  const bool in_home = path == "~" || path.starts_with("~/");
  std::string result = in_home ? home() : "";
  for (size_t i = in_home ? 1 : 0; i < path.size();) {
    size_t begin = i + 1, end = begin;
    const bool braced = path[i] == '$' && begin < path.size() && path[begin] == '{';
    if (braced) end = ++begin;
    while (end < path.size() && (std::isalnum(static_cast<unsigned char>(path[end])) || path[end] == '_')) ++end;
    const std::string name = path.substr(begin, end - begin);
    const bool closed = !braced || (end < path.size() && path[end] == '}');
    if (path[i] == '$' && !name.empty() && closed && std::getenv(name.c_str()) != nullptr) {
      result += environment(name);
      i = end + (braced ? 1 : 0);
    } else {
      result += path[i++];
    }
  }
  return result;
}

}  // namespace

std::filesystem::path hub_cache() {
  constexpr std::pair<const char*, const char*> kVariables[] = {
      {"HF_HUB_CACHE", ""}, {"HUGGINGFACE_HUB_CACHE", ""}, {"HF_HOME", "/hub"}, {"XDG_CACHE_HOME", "/huggingface/hub"}};
  for (const auto& [variable, suffix] : kVariables)
    if (const std::string folder = environment(variable); !folder.empty()) return expand(folder + suffix);
  return expand("~/.cache/huggingface/hub");
}

std::filesystem::path cached_snapshot(const std::string& name) {
  std::string folder = kModels + name;
  replace_all(folder, "/", "--");
  const std::filesystem::path model = hub_cache() / folder, main = model / "refs" / "main";
  if (!path_exists(main)) return {};
  std::string commit = read_file(main, 1 << 10);
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back()))) commit.pop_back();
  if (commit.empty() || commit.find('/') != std::string::npos) return {};
  const std::filesystem::path snapshot = model / "snapshots" / commit;
  return is_folder(snapshot) ? snapshot : std::filesystem::path();
}

std::string download_hint(const std::filesystem::path& folder) {
  std::string name = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() != "snapshots" || !name.starts_with(kModels)) return "";
  name = name.substr(std::string(kModels).size());
  replace_all(name, "--", "/");
  return "the download is incomplete; finish it with: hf download " + name + " (pip install huggingface_hub)";
}

}  // namespace keel
