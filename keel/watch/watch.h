#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/watch/listener.h"

namespace keel {

/// Serves the pages of these runs and of folders of runs until a stop is requested. Prints the address and the changes
/// of the runs on the console.
void watch(const std::vector<std::string>& folders, const ListenAddress& address, Console& console);

/// Serves one run from a child process during this object's lifetime. If a page is open, the child serves it for a few
/// more seconds, to show the run's end. The child ends with this process in any case. It forks, so create the object
/// before other threads start.
class BackgroundWatch {
 public:
  /// The folder need not exist yet.
  explicit BackgroundWatch(const std::filesystem::path& run);
  ~BackgroundWatch();
  BackgroundWatch(const BackgroundWatch&) = delete;
  BackgroundWatch& operator=(const BackgroundWatch&) = delete;

  const std::string& address() const { return address_; }

 private:
  std::string address_;
  FileHandle alive_;  // write end of a pipe, whose closing ends the child
  pid_t process_ = -1;
};

}  // namespace keel
