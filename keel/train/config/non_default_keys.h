#pragma once

#include <string>
#include <vector>

#include "keel/core/options/options.h"

namespace keel {

/// Keys of a section that are not at their defaults.
template <class Options>
std::vector<std::string> non_default_keys(Options options) {
  Options plain;
  OptionTable now, before;
  options.describe(now);
  plain.describe(before);
  std::vector<std::string> keys;
  for (const Option& option : now.options())
    if (now.get(option.path) != before.get(option.path)) keys.push_back(option.path);
  return keys;
}

}  // namespace keel
