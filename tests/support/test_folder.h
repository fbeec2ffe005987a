#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "keel/core/files/file.h"

namespace keel {

/// A new empty folder, which is removed with its content at the end.
class TestFolder {
 public:
  TestFolder() = default;
  ~TestFolder() { remove_tree(path); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  /// Writes a file and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }

  const std::filesystem::path path = made();

 private:
  static std::filesystem::path made() {
    std::string name = testing::TempDir() + "keel_test_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    return std::filesystem::canonical(name);
  }
};

}  // namespace keel
