#pragma once

#include <string>
#include <utility>
#include <vector>

#include "keel/core/options/read_config.h"
#include "keel/train/config/config.h"
#include "tests/support/errors.h"

namespace keel {

struct Loaded {
  Config config;
  std::vector<std::string> notes;
};

/// A configuration with settings of the command line.
inline Loaded load(ConfigTree tree, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  Loaded loaded;
  loaded.config = load_config(tree, loaded.notes);
  return loaded;
}

inline Loaded load(const std::vector<std::string>& overrides) { return load(ConfigTree(), overrides); }

inline std::string refusal_of(const std::vector<std::string>& overrides) {
  return error_of(2, [&] { load(overrides); });
}

}  // namespace keel
