#pragma once

#include <chrono>

namespace keel {

/// Seconds on a clock that is never set, from some moment on.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace keel
