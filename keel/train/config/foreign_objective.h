#pragma once

#include <string>
#include <vector>

#include "keel/core/options/config_tree.h"
#include "keel/core/options/options.h"
#include "keel/train/config/purpose.h"

namespace keel {

// Which objective a configuration in the names of TRL, verl or OpenRLHF means. Their names for a loss, its bounds and
// its advantages are read together, as the program they come from reads them; none of them ever becomes a number of
// another family of methods.

/// What a program has for a setting of its objective where nothing is said; nullptr where that is nothing.
const Json* default_of(const std::string& program, const std::string& name);

/// The names of other programs that say which objective is trained.
void add_objective_aliases(OptionTable& table);

/// Which of another program's defaults are filled in: a run has those of the objective and notes the others, an import
/// has all that can be said here.
enum class Unsaid { kOfTheObjective, kAll };

/// A configuration that has the names of one of these programs and names no method means that program's method: what it
/// leaves unsaid about the objective is filled in with the program's defaults, in its own words, and noted. Names that
/// say nothing about an objective (learning_rate) do so where the file has no setting under its name in Keel. A
/// configuration that names a method of ours (objective.method), or has no such names, comes back as it is. Names on
/// the command line do not make a file of ours another program's, unless one of them names the loss. The table knows
/// the names: one that it does not know is a slip, which whoever loads the tree tells.
ConfigTree with_foreign_defaults(ConfigTree tree, const OptionTable& table, Purpose purpose,
                                 std::vector<std::string>& notes, Unsaid unsaid = Unsaid::kOfTheObjective);

}  // namespace keel
