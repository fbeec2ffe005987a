#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/record/run_data.h"

namespace keel {

/// A metric against the band that the run itself set in its first steps. docs/report.md says how the band is made.
struct BandCheck {
  std::string key, name;
  double low = 0, high = 0;  // the band; infinite where a side does not matter
  struct Leave {
    int64_t step = 0;
    double value = 0;
    bool above = false;
    double low = 0, high = 0;  // the band at that step: that of the reward rises with it
    bool came_back = false;    // the run's last steps are inside again
  };
  std::optional<Leave> left = {};  // the first of three steps in a row outside
};

struct Health {
  int64_t steps = 0, first_part = 0;   // RL steps, and those that the bands are made from; 0: too few to judge by
  std::vector<BandCheck> checks = {};  // those that left first come first, in the order of their steps

  /// The one that left its band first.
  const BandCheck* first() const { return !checks.empty() && checks[0].left ? &checks[0] : nullptr; }
};

inline constexpr int64_t kFewestStepsForHealth = 20;

Health check_health(const RunData& run);

}  // namespace keel
