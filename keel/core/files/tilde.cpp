#include "keel/core/files/tilde.h"

#include "keel/core/error.h"

namespace keel {

void check_tilde(const std::string& setting, const std::string& folder) {
  if (folder != "~" && !folder.starts_with("~/")) return;
  fail(ExitCode::kBadConfiguration, setting, " is ", folder,
       ", where no shell expanded ~; it would be a folder called ~. Write $HOME", folder.substr(1),
       " on a command line and the whole path in a file, or ./", folder, " if that is meant");
}

}  // namespace keel
