#include "keel/record/tools/exported_run.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>

namespace keel {

double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::round<std::chrono::milliseconds>(now).count()) / 1000;
}

std::string calendar_time(double seconds_since_1970) {
  const auto seconds = static_cast<time_t>(seconds_since_1970);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, strftime(text, sizeof(text), "%Y%m%d_%H%M%S", &parts)};
}

double ExportedRun::begin() const {
  const ExportedStep& first = steps.front();
  const auto took = first.values.find("time/step");
  return first.time - (took == first.values.end() ? 0 : took->second);
}

std::string exact_number(double value) {
  constexpr double kWhole = 1e15;  // below it all whole numbers are, and read better without an exponent
  char text[32];
  const bool whole = std::trunc(value) == value && std::abs(value) < kWhole;
  const auto end = whole ? std::to_chars(text, text + sizeof(text), static_cast<int64_t>(value))
                         : std::to_chars(text, text + sizeof(text), value);
  return {text, end.ptr};
}

}  // namespace keel
