#include "keel/core/files/tilde.h"

#include "keel/core/error.h"

namespace keel {

void check_tilde(const std::string& setting, const std::string& folder) {
  if (folder != "~" && !folder.starts_with("~/")) return;
  fail(ExitCode::kBadConfiguration, setting, " is ", folder,
       ", where ~ was left as it is and would be a folder of that ", "name; write $HOME", folder.substr(1),
       " on a command line and the whole path in a file, or ./", folder, " if that is meant");
}

}  // namespace keel
