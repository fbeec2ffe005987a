#pragma once

#include <map>
#include <string>
#include <string_view>

#include "libs/mathverify/arithmetic/rational.h"

namespace keel::math {

/// What stands behind a number: "cm^2", "miles per hour", "apples".
struct Unit {
  std::map<std::string, int> dimensions;  // "meter": 2; an unknown word is a dimension of its own
  Rational factor = Rational(1);          // to the base units

  bool operator==(const Unit& other) const = default;
};

/// Undecided for words that change what the number says ("or more", "not").
Unit parse_unit(std::string_view words);

/// Pounds are money or mass; beside grams or sterling they are what those are.
Unit with_pounds_like(Unit unit, const Unit& other);

/// The unit behind the M of "MHz" or "Mg", in lower case; empty for every other word. M is mega where m is milli: of no
/// other prefix does the case count here, since people write Km and KG.
std::string behind_mega(std::string_view word);

/// Whether a word is a unit one may find behind a number without a space or \text: cm, kg, mph.
bool is_unit_symbol(std::string_view word);

}  // namespace keel::math
