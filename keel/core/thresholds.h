#pragma once

namespace keel {

/// A trust region's thresholds for negative and for positive advantages.
struct Thresholds {
  double low = 0, high = 0;
};

}  // namespace keel
