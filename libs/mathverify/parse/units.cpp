#include "libs/mathverify/parse/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <tuple>

#include "libs/mathverify/parse/characters.h"

namespace keel::math {
namespace {

struct Known {
  std::string_view word, dimension;
  int power;
  int64_t numerator, denominator;
  bool is_symbol;  // recognised directly after a number
};

// Exact by definition (international yard and pound, 1959).
constexpr auto kUnits = std::to_array<Known>({
    {"m", "meter", 1, 1, 1, false},
    {"meter", "meter", 1, 1, 1, true},
    {"metre", "meter", 1, 1, 1, true},
    {"cm", "meter", 1, 1, 100, true},
    {"centimeter", "meter", 1, 1, 100, true},
    {"centimetre", "meter", 1, 1, 100, true},
    {"mm", "meter", 1, 1, 1000, true},
    {"millimeter", "meter", 1, 1, 1000, true},
    {"millimetre", "meter", 1, 1, 1000, true},
    {"km", "meter", 1, 1000, 1, true},
    {"kilometer", "meter", 1, 1000, 1, true},
    {"kilometre", "meter", 1, 1000, 1, true},
    {"in", "meter", 1, 254, 10000, true},
    {"inch", "meter", 1, 254, 10000, true},
    {"inche", "meter", 1, 254, 10000, true},
    {"ft", "meter", 1, 3048, 10000, true},
    {"foot", "meter", 1, 3048, 10000, true},
    {"feet", "meter", 1, 3048, 10000, true},
    {"yd", "meter", 1, 9144, 10000, true},
    {"yard", "meter", 1, 9144, 10000, true},
    {"mi", "meter", 1, 1609344, 1000, true},
    {"mile", "meter", 1, 1609344, 1000, true},
    {"l", "meter", 3, 1, 1000, false},
    {"liter", "meter", 3, 1, 1000, true},
    {"litre", "meter", 3, 1, 1000, true},
    {"ml", "meter", 3, 1, 1000000, true},
    {"milliliter", "meter", 3, 1, 1000000, true},
    {"g", "gram", 1, 1, 1, false},
    {"gram", "gram", 1, 1, 1, true},
    {"kg", "gram", 1, 1000, 1, true},
    {"kilogram", "gram", 1, 1000, 1, true},
    {"mg", "gram", 1, 1, 1000, true},
    {"milligram", "gram", 1, 1, 1000, true},
    {"lb", "gram", 1, 45359237, 100000, true},
    {"pound", "pound", 1, 1, 1, true},  // money or mass: not converted
    {"oz", "gram", 1, 45359237, 1600000, true},
    {"ounce", "gram", 1, 45359237, 1600000, true},
    {"s", "second", 1, 1, 1, false},
    {"sec", "second", 1, 1, 1, true},
    {"second", "second", 1, 1, 1, true},
    {"min", "second", 1, 60, 1, true},
    {"minute", "second", 1, 60, 1, true},
    {"h", "second", 1, 3600, 1, false},
    {"hr", "second", 1, 3600, 1, true},
    {"hour", "second", 1, 3600, 1, true},
    {"day", "second", 1, 86400, 1, true},
    {"week", "second", 1, 604800, 1, true},
    {"month", "month", 1, 1, 1, true},
    {"year", "month", 1, 12, 1, true},
    {"dollar", "dollar", 1, 1, 1, true},
    {"usd", "dollar", 1, 1, 1, true},
    {"buck", "dollar", 1, 1, 1, true},
    {"cent", "dollar", 1, 1, 100, true},
    {"degree", "degree", 1, 1, 1, true},
    {"deg", "degree", 1, 1, 1, true},
    {"unit", "unit", 1, 1, 1, true},
    {"celsius", "c", 1, 1, 1, true},
    {"c", "c", 1, 1, 1, false},
    {"fahrenheit", "f", 1, 1, 1, true},
    {"f", "f", 1, 1, 1, false},
    {"k", "k", 1, 1, 1, false},
    {"kelvin", "k", 1, 1, 1, true},
    {"n", "newton", 1, 1, 1, false},
    {"newton", "newton", 1, 1, 1, true},
    {"j", "joule", 1, 1, 1, false},
    {"joule", "joule", 1, 1, 1, true},
    {"kj", "joule", 1, 1000, 1, true},
    {"w", "watt", 1, 1, 1, false},
    {"watt", "watt", 1, 1, 1, true},
    {"kw", "watt", 1, 1000, 1, true},
    {"v", "volt", 1, 1, 1, false},
    {"volt", "volt", 1, 1, 1, true},
    {"hz", "hertz", 1, 1, 1, true},
    {"hertz", "hertz", 1, 1, 1, true},
    {"khz", "hertz", 1, 1000, 1, true},
    {"yr", "month", 1, 12, 1, true},
    {"gallon", "gallon", 1, 1, 1, true},
    {"quart", "gallon", 1, 1, 4, true},
    {"pint", "gallon", 1, 1, 8, true},
    {"cup", "gallon", 1, 1, 16, true},
    {"ton", "ton", 1, 1, 1, true},
    {"tonne", "gram", 1, 1000000, 1, true},
    {"dm", "meter", 1, 1, 10, true},
    {"decimeter", "meter", 1, 1, 10, true},
    {"cl", "meter", 3, 1, 100000, true},
    {"dl", "meter", 3, 1, 10000, true},
    {"cc", "meter", 3, 1, 1000000, true},
    {"hectare", "meter", 2, 10000, 1, true},
    {"eur", "euro", 1, 1, 1, true},
    {"euro", "euro", 1, 1, 1, true},
    {"gbp", "sterling", 1, 1, 1, true},
    {"pence", "sterling", 1, 1, 100, true},
    {"inr", "rupee", 1, 1, 1, true},
    {"coulomb", "c", 1, 1, 1, true},
    {"rad", "rad", 1, 1, 1, true},
    {"radian", "rad", 1, 1, 1, true},
    {"decade", "month", 1, 120, 1, true},
    {"century", "month", 1, 1200, 1, true},
});

// Words that change the meaning of the number before them.
constexpr auto kModifiers = std::to_array<std::string_view>(
    {"or",         "not",       "more",   "less",      "than",     "least",   "most",    "about",    "approximately",
     "if",         "and",       "wrong",  "incorrect", "false",    "when",    "where",   "for",      "but",
     "maybe",      "is",        "mod",    "modulo",    "trillion", "million", "billion", "thousand", "hundred",
     "dozen",      "percent",   "times",  "factorial", "cubed",    "squared", "half",    "halve",    "third",
     "fourth",     "quarter",   "fifth",  "sixth",     "seventh",  "eighth",  "ninth",   "tenth",    "hundredth",
     "thousandth", "millionth", "power",  "root",      "over",     "plus",    "no",      "none",     "never",
     "nor",        "neither",   "approx", "roughly",   "nearly",   "around",  "minus",   "negative", "base",
     "choose",     "except",    "unless", "ten",       "ish"});

// Unit symbols with prefixes m and M: 5 mg is not 5 Mg. "Min" and "MPH" are not prefixed.
constexpr auto kPrefixableUnits = std::to_array<std::string_view>(
    {"m",   "g",  "l",  "s",  "sec", "a",   "b",   "c",   "f",   "h",   "j",    "k",  "n",    "t",
     "v",   "w",  "hz", "pa", "bar", "ev",  "wh",  "ah",  "cal", "bit", "bq",   "bp", "byte", "ohm",
     "mol", "sv", "gy", "lm", "kat", "rad", "ton", "gal", "ci",  "pc",  "watt", "yr", "va",   "joule"});

const Known* find_unit(std::string_view word) {
  const auto* found = std::find_if(kUnits.begin(), kUnits.end(), [&](const Known& each) { return each.word == word; });
  return found == kUnits.end() ? nullptr : found;
}

std::string singular(std::string word) {
  if (find_unit(word) != nullptr || word.size() < 3) return word;
  if (word.ends_with("s") && !word.ends_with("ss")) word.pop_back();
  return word;
}

/// Expands derived units: 1 N = 1 kg m/s^2, 1 J = 1 N m, 1 W = 1 J/s.
Unit in_base_units(Unit unit) {
  static constexpr std::tuple<const char*, int, int> kDerived[] = {
      {"newton", 1, -2}, {"joule", 2, -2}, {"watt", 2, -3}};  // with the powers of meter and second
  for (const auto& [name, meters, seconds] : kDerived) {
    const auto found = unit.dimensions.find(name);
    if (found == unit.dimensions.end()) continue;
    const int power = found->second;
    unit.dimensions.erase(found);
    for (const auto& [dimension, each] : {std::pair{"gram", 1}, {"meter", meters}, {"second", seconds}})
      if ((unit.dimensions[dimension] += each * power) == 0) unit.dimensions.erase(dimension);
    unit.factor = unit.factor * Rational(1000).power(power);
  }
  return unit;
}

}  // namespace

std::string unit_after_mega(std::string_view word) {
  if (!word.starts_with('M')) return "";
  const std::string rest = singular(lowered(word)).substr(1);
  return std::find(kPrefixableUnits.begin(), kPrefixableUnits.end(), rest) != kPrefixableUnits.end() ? rest : "";
}

Unit resolve_pounds(Unit unit, const Unit& other) {
  const auto found = unit.dimensions.find("pound");
  if (found == unit.dimensions.end() || unit.dimensions.contains("gram")) return unit;
  const int power = found->second;
  if (other.dimensions.contains("sterling")) {
    unit.dimensions.erase(found);
    unit.dimensions["sterling"] = power;
  } else if (other.dimensions.contains("gram")) {
    unit.dimensions.erase(found);
    unit.dimensions["gram"] = power;
    unit.factor = unit.factor * Rational(Integer(45359237), Integer(100000)).power(power);
  }
  return unit;
}

bool is_unit_symbol(std::string_view word) {
  const std::string lower = lowered(word);
  if (lower == "mph" || lower == "kph" || lower == "kmph" || lower == "kmh") return true;
  const Known* known = find_unit(singular(lower));
  return known != nullptr && known->is_symbol;
}

Unit parse_unit(std::string_view words) {
  while (words.starts_with(" ")) words.remove_prefix(1);
  const std::string name = lowered(words);
  if (name == "mph") return parse_unit("miles per hour");
  if (name == "kph" || name == "kmph" || name == "kmh") return parse_unit("km per hour");
  Unit unit;
  int sign = 1, prefix = 1;
  std::optional<std::pair<std::string, int>> last_dimension;  // the dimension an exponent belongs to, with its power
  Rational last_factor(1);
  const auto finish = [&](int power) {
    if (!last_dimension) return;
    if (std::abs(power) > 4 || unit.dimensions.size() > 8) throw Undecided{};
    if ((unit.dimensions[last_dimension->first] += last_dimension->second * power) == 0)
      unit.dimensions.erase(last_dimension->first);
    unit.factor = unit.factor * last_factor.power(power);
    last_dimension.reset();
  };
  int sign_and_prefix = 1;  // sign times prefix of `last_dimension`
  for (size_t at = 0; at < words.size();) {
    const char c = words[at];
    if (c == '/') {
      finish(sign_and_prefix);
      sign = -1;
      ++at;
    } else if (c == '^') {
      ++at;
      const bool negative = at < words.size() && words[at] == '-';
      at += negative;
      if (at >= words.size() || words[at] < '1' || words[at] > '4') throw Undecided{};
      finish(sign_and_prefix * (words[at] - '0') * (negative ? -1 : 1));
      ++at;
    } else if (std::isalpha(static_cast<unsigned char>(c))) {
      std::string word;
      while (at < words.size() && (std::isalpha(static_cast<unsigned char>(words[at])) || words[at] == '\''))
        word += words[at++];
      const std::string mega = unit_after_mega(word);
      word = lowered(word);
      if (last_dimension && (word == "squared" || word == "cubed")) {  // meters per second squared
        finish(sign_and_prefix * (word == "squared" ? 2 : 3));
        continue;
      }
      for (const std::string& form : {word, singular(word)})
        if (std::find(kModifiers.begin(), kModifiers.end(), form) != kModifiers.end()) throw Undecided{};
      if (word == "per") {
        finish(sign_and_prefix);
        sign = -1;
        continue;
      }
      if (word == "of" || word == "a" || word == "the") continue;
      finish(sign_and_prefix);
      if (word == "square" || word == "sq") {
        prefix = 2;
        continue;
      }
      if (word == "cubic" || word == "cu") {
        prefix = 3;
        continue;
      }
      word = mega.empty() ? singular(std::move(word)) : mega;
      const Known* known = find_unit(word);
      last_dimension = known != nullptr ? std::pair(std::string(known->dimension), known->power) : std::pair(word, 1);
      last_factor = known != nullptr ? Rational(Integer(known->numerator), Integer(known->denominator)) : Rational(1);
      if (!mega.empty()) last_factor = last_factor * Rational(1'000'000);
      sign_and_prefix = sign * prefix;
      prefix = 1;
    } else {
      ++at;
    }
  }
  finish(sign_and_prefix);
  for (const char* scale : {"c", "f", "k"})
    if (unit.dimensions.contains(scale)) unit.dimensions.erase("degree");
  return in_base_units(std::move(unit));
}

}  // namespace keel::math
