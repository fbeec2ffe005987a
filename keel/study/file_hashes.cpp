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

/// Another one where a file was written or replaced, whatever time it was given.
std::string stamp_of(const std::string& file) {
  struct stat seen {};
  if (::stat(file.c_str(), &seen) != 0) return "";
  return str_cat(seen.st_dev, " ", seen.st_ino, " ", seen.st_size, " ", seen.st_ctim.tv_sec, " ", seen.st_ctim.tv_nsec);
}

}  // namespace

void FileHashes::add_file(const std::filesystem::path& file, Json& found) {
  const std::string name = full_path(file);
  const std::string stamp = stamp_of(name);
  Read& known = read_[name];
  if (known.stamp != stamp || stamp.empty()) known = {stamp, sha256_of_file(name)};
  found[name] = known.hash;
}

void FileHashes::add_model(const std::filesystem::path& model, Json& found) {
  if (!is_folder(model)) return add_file(model, found);
  std::error_code unseen;
  for (const std::string& name : list_directory(model))
    if (!name.starts_with('.') && std::filesystem::is_regular_file(model / name, unseen)) add_file(model / name, found);
}

Json FileHashes::of(Config config) {
  Json found = Json::object();
  const auto add = [&](const auto& what) {
    try {
      what();
    } catch (const Error&) {
      // There is no such file, model or adapter.
    }
  };
  for (const std::vector<std::string>* names : data_file_lists(config))
    add([&] {
      for (const std::filesystem::path& file : expand_names(*names)) add_file(file, found);
    });
  if (!config.model.path.empty())
    add([&] { add_model(locate_model(resolve_model(config.model.path, nullptr)), found); });
  if (!config.lora.adapter.empty()) add([&] { add_model(resolve_adapter(config.lora.adapter, nullptr), found); });
  found["reward.files"] = reward_files(config.reward);
  return found;
}

}  // namespace keel
