#pragma once

#include <cstdint>
#include <optional>

namespace keel {

class OptionTable;

/// Settings of evaluations: the section `eval` of a configuration.
struct EvalOptions {
  std::optional<int64_t> prompts;
  int64_t every = 0;
  int64_t samples = 1;
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  void describe(OptionTable& table);
};

}  // namespace keel
