#pragma once

// Helpers of the file tests: a folder for each test, and child processes with other limits and users.

#include <dirent.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "tests/support/test_folder.h"

namespace keel {

/// Creates an empty folder for each test.
class FileTest : public testing::Test {
 protected:
  FileTest() { std::filesystem::permissions(folder_, std::filesystem::perms(0755)); }

  std::filesystem::path at(const std::string& name) const { return folder_ / name; }

  static void put(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string get(const std::filesystem::path& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }
  /// Uses POSIX calls instead of the tested functions and of std::filesystem's iterators, which a torch package may
  /// replace by those of another standard library.
  static std::vector<std::string> names_in(const std::filesystem::path& folder) {
    std::vector<std::string> found;
    DIR* open = ::opendir(folder.c_str());
    while (const dirent* entry = open != nullptr ? ::readdir(open) : nullptr)
      if (const std::string name = entry->d_name; name != "." && name != "..") found.push_back(name);
    if (open != nullptr) ::closedir(open);
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<std::string> names() const { return names_in(folder_); }

  const TestFolder made_;
  const std::filesystem::path& folder_ = made_.path;
};

/// Returns "CODE: message" of the Error that `action` throws, or "".
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
  }
}

inline void expect_error(const std::string& got, ExitCode code, const std::vector<std::string>& parts) {
  EXPECT_EQ(got.substr(0, got.find(':')), std::to_string(static_cast<int>(code))) << got;
  for (const std::string& part : parts) EXPECT_THAT(got, testing::HasSubstr(part));
}

/// Runs `action` in a child process, where it may change limits and user. Returns its result.
inline std::string in_child(const std::function<std::string()>& action) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string result = action();
    const bool sent = ::write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size());
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  std::string result;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    result.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "the child died with status " + std::to_string(status);
  return result;
}

inline void limit_file_size(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);  // like the program
  struct rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) std::abort();
}

/// Drops root, which ignores permissions.
inline void become_ordinary_user() {
  if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) std::abort();
}

}  // namespace keel
