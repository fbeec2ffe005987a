#pragma once

#include <map>
#include <string>
#include <string_view>

#include "libs/mathverify/arithmetic/rational.h"

namespace keel::math {

/// The unit of a number: "cm^2", "miles per hour", "apples".
struct Unit {
  std::map<std::string, int> dimensions;  // "meter": 2; an unknown word is a dimension of its own
  Rational factor = Rational(1);          // to the base units

  bool operator==(const Unit& other) const = default;
};

/// Throws Undecided for words that change the meaning of the number ("or more", "not").
Unit parse_unit(std::string_view words);

/// Pounds are money or mass. Resolves them to the dimension of `other`.
Unit resolve_pounds(Unit unit, const Unit& other);

/// The unit after the M of "MHz" or "Mg" in lower case; empty for other words. Case matters only for M (mega) and m
/// (milli), since people write Km and KG.
std::string unit_after_mega(std::string_view word);

/// True if a word is a unit that may follow a number without a space or \text: cm, kg, mph.
bool is_unit_symbol(std::string_view word);

}  // namespace keel::math
