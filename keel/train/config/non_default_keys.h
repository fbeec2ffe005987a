#pragma once

#include <string>
#include <vector>

#include "keel/core/options/options.h"

namespace keel {

/// The keys of a section whose values differ from their defaults.
template <class Options>
std::vector<std::string> non_default_keys(Options options) {
  Options defaults;
  OptionTable table, default_table;
  options.describe(table);
  defaults.describe(default_table);
  std::vector<std::string> keys;
  for (const Option& option : table.options())
    if (table.get(option.path) != default_table.get(option.path)) keys.push_back(option.path);
  return keys;
}

}  // namespace keel
