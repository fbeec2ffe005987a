#pragma once

#include <string>
#include <vector>

#include "keel/core/options/config_tree.h"
#include "keel/core/options/options.h"
#include "keel/train/config/purpose.h"

namespace keel {

/// Notes what another program would do with a configuration in its names and Keel does not: terms of the loss that are
/// averaged or weighted otherwise, and the program's defaults outside of the objective, where the configuration leaves
/// them unsaid; of those, what has a part in an evaluation where it is for one.
void add_foreign_remarks(const std::string& program, const ConfigTree& tree, const OptionTable& table, Purpose purpose,
                         std::vector<std::string>& notes);

}  // namespace keel
