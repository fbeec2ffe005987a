#pragma once

#include <cstdlib>
#include <string_view>

namespace keel {

/// How many of something a test does: what finds faults within minutes (`make test`), or all of it (`make test-full`).
template <typename T>
T count(T fast, T full) {
  const char* const set = std::getenv("KEEL_TEST_FULL");
  const std::string_view value = set ? set : "";
  return value.empty() || value == "0" ? fast : full;
}

}  // namespace keel
