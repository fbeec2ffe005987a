#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/watch/listener.h"

namespace keel {

/// Serves the pages of these runs, and of those in folders of runs, until someone asks to stop; says on the console
/// where, and what becomes of the runs.
void watch(const std::vector<std::string>& folders, const WatchPlace& place, Console& console);

/// The same for one run, from a process of its own beside that of the run, as long as this object lives: a few seconds
/// longer if a page is open, so that it shows the run's end. It ends with this process, however that ends. To be made
/// before there are other threads.
class WatchBeside {
 public:
  /// The folder may be missing yet.
  explicit WatchBeside(const std::filesystem::path& run);
  ~WatchBeside();
  WatchBeside(const WatchBeside&) = delete;
  WatchBeside& operator=(const WatchBeside&) = delete;

  const std::string& address() const { return address_; }

 private:
  std::string address_;
  FileHandle alive_;  // the end of a pipe; the server sees when it is closed
  pid_t process_ = -1;
};

}  // namespace keel
