#pragma once

#include <string>
#include <string_view>

#include "libs/mathverify/arithmetic/rational.h"

namespace keel::math {

/// A number at the start of a text; length 0 means that there is none.
struct WrittenNumber {
  size_t length = 0;     // bytes
  std::string digits{};  // before the point
  Rational value{};
  bool is_plain = false;  // digits only: no separators, point or exponent
  bool is_based = false;  // 1011_2
};

/// Parses 12, 1,234, 1{,}234, 1.234.567, .5, 1.5e3, 0.1\overline{6}, 0.(3). The text begins with a digit or a point. In
/// a pair such as (1,234), `comma_may_group` is false.
WrittenNumber read_decimal(std::string_view text, bool comma_may_group);

/// Parses 1011_2, 2A_{16}, 77_{eight}, 0xFF or 0b101, if it cannot be a variable.
WrittenNumber read_based(std::string_view text);

}  // namespace keel::math
