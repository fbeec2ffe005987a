#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "keel/core/json.h"
#include "keel/core/options/limits.h"

namespace keel {

/// The variable an option is read into. The closed list of what an option can be.
using OptionTarget = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*,                        //
                                  std::optional<bool>*, std::optional<int64_t>*, std::optional<uint64_t>*,  //
                                  std::optional<double>*, std::optional<std::string>*,                      //
                                  std::vector<std::string>*, std::vector<double>*, std::vector<int64_t>*>;

/// Why a value was not taken. `element` is its place in a list, if it was in one.
struct ValueProblem {
  std::string text;  // got V, wanted W; way out
  std::optional<size_t> element;
};

/// The variable as Json; an empty optional is null.
Json read_target(const OptionTarget& target);

/// Whether the value could be assigned: nothing is converted but integers to numbers and 1e4 to an integer.
std::optional<ValueProblem> check_value(const OptionTarget& target, const Limits& limits, const Json& value);

/// Assigns the value if it has the right type and obeys the limits.
std::optional<ValueProblem> assign_value(const OptionTarget& target, const Limits& limits, const Json& value);

/// What a value must be: "a number above 0 and at most 100, or null".
std::string expected_text(const OptionTarget& target, const Limits& limits);

/// Whether limits like these mean something for the variable's type.
bool limits_fit(const OptionTarget& target, const Limits& limits);

/// A value on one line, safe to print: JSON with long ones cut, strings with or without their quotes.
std::string value_text(const Json& value, bool quoted = true);

/// A value and its type, as errors show it: "\"hot\" (string)".
std::string shown(const Json& value);

}  // namespace keel
