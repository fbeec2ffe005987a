#pragma once

#include <string>

namespace keel {

/// Throws an Error for a folder whose name starts with ~ that no shell has expanded, as in run.dir=~/runs. It would be
/// created as a folder called ~ in the working directory.
void check_tilde(const std::string& setting, const std::string& folder);

}  // namespace keel
