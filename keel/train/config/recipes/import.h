#pragma once

#include <string>
#include <vector>

#include "keel/core/options/config_tree.h"

namespace keel {

/// Names of a recipe's that one reason is for.
struct NamesWithReason {
  std::vector<std::string> names;
  std::string reason;
};

/// A recipe of another program's as a configuration of ours.
struct Imported {
  std::string program;                     // TRL, verl, ...
  std::string yaml;                        // the configuration; each line says what it comes from
  std::vector<NamesWithReason> by_nature;  // why it is always so here
  std::vector<NamesWithReason> dropped;    // why it is left out
  std::vector<std::string> remarks;        // what the program would do and Keel does not
  bool supervised = false;                 // for `keel sft`
};

/// Converts a recipe (read_recipe) by the table of names that `keel train` reads configurations with. What would change
/// what is trained is refused: all of it at once, in one Error.
Imported import_recipe(const ConfigTree& recipe);

}  // namespace keel
