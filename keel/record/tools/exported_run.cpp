#include "keel/record/tools/exported_run.h"

#include <charconv>
#include <chrono>
#include <cmath>

namespace keel {

double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::round<std::chrono::milliseconds>(now).count()) / 1000;
}

std::string shortest_exact(double value) {
  constexpr double kWhole = 1e15;  // integers below it are exact and need no exponent
  char text[32];
  const bool whole = std::trunc(value) == value && std::abs(value) < kWhole;
  const auto end = whole ? std::to_chars(text, text + sizeof(text), static_cast<int64_t>(value))
                         : std::to_chars(text, text + sizeof(text), value);
  return {text, end.ptr};
}

}  // namespace keel
