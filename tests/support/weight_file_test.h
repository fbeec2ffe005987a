#pragma once

// Shared by the tests of weight formats: a file with any bytes, and the error with which a reader rejects it.

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/error.h"

namespace keel {

/// A file with a single error, and the expected message.
struct Reject {
  std::string what, bytes, message;
};

/// Creates a file for each test; `Reader::open` reads it.
template <class Reader>
class WeightFileTest : public testing::Test {
 protected:
  explicit WeightFileTest(const std::string& ending)
      : path_(testing::TempDir() + "keel_" + std::to_string(::getpid()) + ending) {}
  ~WeightFileTest() override { std::filesystem::remove(path_); }

  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  /// Returns the error message, or "" if the file is accepted.
  std::string refusal() const {
    try {
      Reader::open(path_);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
  }

  void expect_refused_by_name(const std::vector<std::vector<Reject>>& tables) const {
    for (const std::vector<Reject>& table : tables) {
      for (const Reject& reject : table) {
        put(reject.bytes);
        const std::string message = refusal();
        EXPECT_THAT(message, testing::HasSubstr(reject.message)) << reject.what;
        EXPECT_THAT(message, testing::HasSubstr(path_.filename().string())) << reject.what;
        EXPECT_LT(message.size(), 600u) << reject.what;
      }
    }
  }

  void expect_accepted(const std::vector<std::pair<std::string, std::string>>& what_and_bytes) const {
    for (const auto& [what, bytes] : what_and_bytes) {
      put(bytes);
      EXPECT_EQ(refusal(), "") << what;
    }
  }

  void expect_a_missing_file_to_be_named() const {
    EXPECT_THAT(refusal(), testing::HasSubstr("No such file or directory"));
    EXPECT_THAT(refusal(), testing::HasSubstr(path_.filename().string()));
  }

  std::filesystem::path path_;
};

}  // namespace keel
