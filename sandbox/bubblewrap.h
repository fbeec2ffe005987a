#pragma once

#include <string>
#include <vector>

#include "sandbox/confine.h"

namespace sandbox {

/// For machines where only bubblewrap may create namespaces: executes `bwrap`, which isolates like unshare_everything()
/// and build_root() and runs this program again as process 1 with `arguments`. Standard input, output and error are
/// inherited; the data of descriptor `program` is /tmp/main.py.
[[noreturn]] void enter_by_bubblewrap(const std::string& bwrap, const std::vector<std::string>& folders,
                                      const Limits& limits, int program, const std::vector<std::string>& arguments);

}  // namespace sandbox
