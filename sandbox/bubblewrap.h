#pragma once

#include <string>
#include <vector>

#include "sandbox/confine.h"

namespace sandbox {

/// Where a machine lets bubblewrap make namespaces and nobody else: becomes `bwrap`, which builds the same world as
/// unshare_everything() and build_root() and runs this program again in it, as its process 1, with `arguments`.
/// Standard input, output and error stay; what can be read from `program` is /tmp/main.py.
[[noreturn]] void enter_by_bubblewrap(const std::string& bwrap, const std::vector<std::string>& folders,
                                      const Limits& limits, int program, const std::vector<std::string>& arguments);

}  // namespace sandbox
