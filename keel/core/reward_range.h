#pragma once

namespace keel {

/// No response can get a reward below or above these.
struct RewardRange {
  double lowest = 0, highest = 0;

  double middle() const { return (lowest + highest) / 2; }
  double half_width() const { return (highest - lowest) / 2; }
};

}  // namespace keel
