#include "keel/study/file_hashes.h"

#include <sys/stat.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/str_cat.h"
#include "keel/data/dataset.h"
#include "keel/model/folder/model_folder.h"
#include "keel/reward/reward_files.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/config/absolute_paths.h"

namespace keel {
namespace {

/// Returns a stamp that changes whenever a file is written or replaced, whatever its modification time.
std::string file_stamp(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return "";
  return str_cat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_ctim.tv_sec, " ", info.st_ctim.tv_nsec);
}

}  // namespace

void FileHashes::add_file(const std::filesystem::path& file, Json& hashes) {
  const std::string name = full_path(file);
  const std::string stamp = file_stamp(name);
  CachedHash& cached = cache_[name];
  if (cached.stamp != stamp || stamp.empty()) cached = {stamp, sha256_of_file(name)};
  hashes[name] = cached.hash;
}

void FileHashes::add_model(const std::filesystem::path& model, Json& hashes) {
  if (!is_folder(model)) return add_file(model, hashes);
  std::error_code ignored;
  for (const std::string& name : list_directory(model))
    if (!name.starts_with('.') && std::filesystem::is_regular_file(model / name, ignored))
      add_file(model / name, hashes);
}

Json FileHashes::hash_files(Config config) {
  Json hashes = Json::object();
  const auto try_add = [&](const auto& add) {
    try {
      add();
    } catch (const Error&) {
      // The file, model or adapter is missing.
    }
  };
  for (const std::vector<std::string>* names : data_file_lists(config))
    try_add([&] {
      for (const std::filesystem::path& file : expand_globs(*names)) add_file(file, hashes);
    });
  if (!config.model.path.empty())
    try_add([&] { add_model(locate_model(resolve_model(config.model.path, nullptr)), hashes); });
  if (!config.lora.adapter.empty()) try_add([&] { add_model(resolve_adapter(config.lora.adapter, nullptr), hashes); });
  hashes["reward.files"] = reward_files(config.reward);
  return hashes;
}

}  // namespace keel
