#pragma once

#include <array>

#include "keel/train/config/config.h"

namespace keel {

/// The settings that name files of rows.
std::array<std::vector<std::string>*, 4> data_file_lists(Config& config);

/// The same configuration with names of files that mean the same from any folder, so that a run can be resumed from
/// elsewhere: of the model, the adapter, data and reward functions.
Config with_absolute_paths(Config config);

}  // namespace keel
