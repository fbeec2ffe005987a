#pragma once

#include <array>

#include "keel/train/config/config.h"

namespace keel {

/// The settings that list data files.
std::array<std::vector<std::string>*, 4> data_file_lists(Config& config);

/// Makes the paths of model, adapter, data and reward functions absolute, so that a run can be resumed from any working
/// directory.
Config with_absolute_paths(Config config);

}  // namespace keel
