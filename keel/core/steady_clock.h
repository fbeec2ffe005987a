#pragma once

#include <chrono>

namespace keel {

/// Returns the monotonic time in seconds.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace keel
