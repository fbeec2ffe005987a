#pragma once

namespace keel {

/// The lowest and highest possible reward of a response.
struct RewardRange {
  double lowest = 0, highest = 0;

  double middle() const { return (lowest + highest) / 2; }
  double half_width() const { return (highest - lowest) / 2; }
};

}  // namespace keel
