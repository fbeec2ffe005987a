#pragma once

#include <string>

namespace keel {

/// Refuses a folder to be made of a name that begins with ~, in whose place no shell has put the home folder, as of
/// run.dir=~/runs: it would be one that is called ~, in the folder where one stands.
void check_tilde(const std::string& setting, const std::string& folder);

}  // namespace keel
