#pragma once

#include <string>
#include <utility>
#include <vector>

#include "keel/core/options/config_tree.h"
#include "keel/core/options/options.h"
#include "keel/train/config/purpose.h"

namespace keel {

/// A program's defaults outside of the objective that ours could have and that the configuration leaves unsaid.
std::vector<std::pair<std::string, Json>> other_defaults_of(const std::string& program, const ConfigTree& tree,
                                                            const OptionTable& table);

/// Notes what another program would do with a configuration in its names and Keel does not: terms of the loss that are
/// averaged or weighted otherwise, and the program's defaults outside of the objective, where the configuration leaves
/// them unsaid; of those, what has a part in an evaluation where it is for one.
void add_foreign_remarks(const std::string& program, const ConfigTree& tree, const OptionTable& table, Purpose purpose,
                         std::vector<std::string>& notes);

}  // namespace keel
