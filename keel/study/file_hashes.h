#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "keel/core/json.h"
#include "keel/train/config/config.h"

namespace keel {

/// What is in the files that configurations name: rows, reward functions and their programs, the model and the adapter
/// that a run starts from. A file is read again where it was changed since.
class FileHashes {
 public:
  /// Of each file its hash. What cannot be found is no error here: the run says what it misses.
  Json of(Config config);

 private:
  void add_file(const std::filesystem::path& file, Json& found);
  /// A model's folder, or a file of one.
  void add_model(const std::filesystem::path& model, Json& found);

  struct Read {
    std::string stamp, hash;
  };
  std::map<std::string, Read> read_;
};

}  // namespace keel
