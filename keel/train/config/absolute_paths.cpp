#include "keel/train/config/absolute_paths.h"

#include "keel/core/files/file.h"

namespace keel {

std::array<std::vector<std::string>*, 4> data_file_lists(Config& config) {
  return {&config.data.files, &config.data.eval_files, &config.sft.files, &config.sft.eval_files};
}

Config with_absolute_paths(Config config) {
  std::error_code ignored;  // a name that is not a path (owner/name) stays; its reader reports an invalid one
  for (std::string* path : {&config.model.path, &config.lora.adapter})
    if (!path->empty() && std::filesystem::exists(*path, ignored)) *path = full_path(*path);
  for (std::vector<std::string>* names : data_file_lists(config))
    for (std::string& name : *names) name = full_path(name);
  for (std::string& function : config.reward.functions) function = with_absolute_paths(function);
  // A name without a slash is found through PATH.
  std::string& python = config.reward.python;
  if (python.find('/') != std::string::npos) python = full_path(python);
  return config;
}

}  // namespace keel
