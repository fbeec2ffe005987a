#pragma once

#include <string>
#include <vector>

namespace keel {

struct RewardOptions;

/// Returns the files that reward.functions name, each with its fingerprint: "PATH sha256:...".
std::vector<std::string> reward_files(const RewardOptions& options);

}  // namespace keel
