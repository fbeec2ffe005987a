#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "keel/core/json.h"
#include "keel/core/options/limits.h"

namespace keel {

/// Points to the variable of an option. Lists all possible types.
using OptionTarget = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*,                        //
                                  std::optional<bool>*, std::optional<int64_t>*, std::optional<uint64_t>*,  //
                                  std::optional<double>*, std::optional<std::string>*,                      //
                                  std::vector<std::string>*, std::vector<double>*, std::vector<int64_t>*>;

/// Why a value was rejected. `element` is its index if it is in a list.
struct ValueProblem {
  std::string text;  // "got V, expected W; FIX"
  std::optional<size_t> element;
};

/// Returns the variable as JSON. An empty optional is null.
Json read_target(const OptionTarget& target);

/// Checks a value without assigning it. The only conversions are integers to numbers, 1e4 to an integer, and one string
/// without a comma to a list of strings.
std::optional<ValueProblem> check_value(const OptionTarget& target, const Limits& limits, const Json& value);

/// Assigns the value if it has the right type and is within the limits.
std::optional<ValueProblem> assign_value(const OptionTarget& target, const Limits& limits, const Json& value);

/// Describes the valid values: "a number above 0 and at most 100, or null".
std::string expected_text(const OptionTarget& target, const Limits& limits);

/// Returns whether limits of this kind apply to the variable's type.
bool limits_fit(const OptionTarget& target, const Limits& limits);

/// Formats a value as JSON on one line for messages. Truncates it if it is long.
std::string value_text(const Json& value, bool quoted = true);

/// Formats a value with its type for errors: "\"hot\" (string)".
std::string value_and_type(const Json& value);

}  // namespace keel
