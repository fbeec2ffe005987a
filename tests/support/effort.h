#pragma once

#include <cstdlib>
#include <string_view>

namespace keel {

/// Chooses between the size of a short test (`make test`, minutes) and of a full one (`make test-full`).
template <typename T>
T count(T fast, T full) {
  const char* const set = std::getenv("KEEL_TEST_FULL");
  const std::string_view value = set ? set : "";
  return value.empty() || value == "0" ? fast : full;
}

}  // namespace keel
