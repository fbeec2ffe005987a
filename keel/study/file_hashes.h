#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "keel/core/json.h"
#include "keel/train/config/config.h"

namespace keel {

/// Hashes of the files that configurations name: data, reward functions and their programs, model and adapter. A file
/// is read again only if it was changed.
class FileHashes {
 public:
  /// Returns the hash of each file. Ignores missing files, which are an error of the run.
  Json hash_files(Config config);

 private:
  void add_file(const std::filesystem::path& file, Json& hashes);
  /// Adds the files of a model folder, or a model file.
  void add_model(const std::filesystem::path& model, Json& hashes);

  struct CachedHash {
    std::string stamp, hash;
  };
  std::map<std::string, CachedHash> cache_;
};

}  // namespace keel
