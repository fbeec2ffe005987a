#pragma once

#include <string>
#include <vector>

namespace keel {

struct RewardOptions;

/// The files that the functions name, and what is in each: "PATH sha256:...".
std::vector<std::string> reward_files(const RewardOptions& options);

}  // namespace keel
