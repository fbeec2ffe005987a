#include "keel/core/options/option_value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "keel/core/nearest.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using type = T;
};
template <class T>
struct ElementOf<std::optional<T>> {
  using type = T;
};
template <class T>
using Element = typename ElementOf<T>::type;

template <class T>
constexpr bool kIsList = std::is_same_v<T, std::vector<Element<T>>>;
template <class T>
constexpr bool kIsOptional = std::is_same_v<T, std::optional<Element<T>>>;
template <class T>
constexpr bool kIsString = std::is_same_v<T, std::string>;
template <class T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <class T>
std::string type_with_article() {
  if constexpr (std::is_same_v<T, bool>) return "a boolean";
  if constexpr (kIsString<T>) return "a string";
  return std::is_same_v<T, double> ? "a number" : "an integer";
}

template <class T>
std::string plural_type() {
  return type_with_article<T>().substr(type_with_article<T>().find(' ') + 1) + "s";
}

template <class T>
std::string describe_expected(const Limits& limits) {
  if constexpr (kIsOptional<T>) {
    return describe_expected<Element<T>>(limits) + ", or null";
  } else if constexpr (kIsList<T>) {
    const std::string each = limits.bounds_text() + limits.choices_text();  // an element is a number or a string
    return (limits.is_not_empty() ? "a non-empty list of " : "a list of ") + plural_type<Element<T>>() +
           (each.empty() ? "" : ", each " + each);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return describe_expected<int64_t>(limits.has_lower_bound() ? limits : limits.at_least(0));
  } else if constexpr (kIsString<T>) {
    if (!limits.choices().empty()) return limits.choices_text();
    return limits.is_not_empty() ? "a string that is not empty" : "a string";
  } else {
    return type_with_article<T>() + (limits.has_bounds() ? " " + limits.bounds_text() : "");
  }
}

/// Returns whether one string is a list of one. With a comma it could be a list whose brackets were forgotten.
bool is_list_of_one(const Json& value) {
  return value.is_string() && value != "" && value.get_ref<const std::string&>().find(',') == std::string::npos;
}

/// Suggests a list for a single value: splits a string at commas, and one of numbers also at spaces.
std::string suggested_list(const Json& value, bool of_numbers) {
  if (!value.is_string()) return yaml_inline(Json::array({value}));
  std::vector<std::string> parts;
  const std::string& text = value.get_ref<const std::string&>();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(of_numbers ? ", " : ",", begin), text.size());
    if (const std::string_view part = trimmed(std::string_view(text).substr(begin, end - begin)); !part.empty())
      parts.emplace_back(part);
    begin = end + 1;
  }
  if (of_numbers && std::all_of(parts.begin(), parts.end(), is_number_text)) return "[" + joined(parts) + "]";
  return yaml_inline(parts.empty() ? Json::array({value}) : Json(parts));
}

/// Distinguishes choices by their digits: float16 is not a misspelling of float32.
std::string digits_in(std::string text) {
  std::erase_if(text, [](char c) { return c < '0' || c > '9'; });
  return text;
}

/// Returns the fix for a rejected value ("; write true or false"), or an empty string.
template <class T>
std::string fix_for(const Json& value, const Limits& limits) {
  if (value.is_null() || value.is_object()) return "";
  if constexpr (kIsOptional<T>) {
    return fix_for<Element<T>>(value, limits);
  } else if constexpr (kIsList<T>) {
    return value.is_array() ? "" : "; write " + suggested_list(value, kIsNumber<Element<T>>);
  } else if constexpr (kIsString<T>) {
    const auto& choices = limits.choices();
    if (!value.is_string()) {
      const bool fits = choices.empty() || std::find(choices.begin(), choices.end(), value.dump()) != choices.end();
      return value.is_array() || !fits ? "" : "; put it in quotes";
    }
    const std::string& text = value.get_ref<const std::string&>();
    const auto choice = nearest_name(text, choices);
    const bool digits_differ = choice && !digits_in(*choice).empty() && digits_in(text) != digits_in(*choice);
    return choice && !digits_differ ? "; did you mean " + *choice + "?" : "";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "; write true or false";
  } else {
    if (value.is_number()) {
      const std::string reason = limits.reason_if_too_low(value.get<double>());
      return reason.empty() ? "" : "; " + reason;
    }
    if (!value.is_string()) return "";
    std::string text = value;
    const bool is_grouped = std::erase(text, '_') > 0;
    if (!is_number_text(text)) return "";
    return is_grouped ? "; write " + text : "; remove the quotes";
  }
}

template <class T>
std::optional<T> integer_value(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  } else if (value.is_number_float()) {
    // Accepts 1e4. The exclusive upper limit is a power of two, which a double represents exactly, unlike max().
    const double number = value, end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    const double first = std::is_signed_v<T> ? -end : 0;
    if (number == std::floor(number) && number >= first && number < end) return static_cast<T>(number);
  }
  return std::nullopt;
}

template <class T>
std::optional<T> typed_value(const Json& value, const Limits& limits) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return value.get<bool>();
  } else if constexpr (kIsString<T>) {
    if (value.is_string()) return value.get<std::string>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (limits.allow_none() && value == "none") return std::numeric_limits<double>::infinity();
    if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  } else {
    return integer_value<T>(value);
  }
  return std::nullopt;
}

template <class T>
bool within_limits(const T& value, const Limits& limits) {
  if constexpr (kIsString<T>) return limits.allow(value) && limits.allow_size(value.size());
  if constexpr (kIsNumber<T>) return limits.allow(static_cast<double>(value));
  return true;
}

template <class T>
using Converted = std::variant<T, ValueProblem>;

template <class T>
ValueProblem make_problem(const Json& value, const Limits& limits) {
  return {"got " + value_and_type(value) + ", expected " + describe_expected<T>(limits) + fix_for<T>(value, limits),
          std::nullopt};
}

template <class T>
Converted<T> convert(const Json& value, const Limits& limits) {
  if constexpr (kIsOptional<T>) {
    if (value.is_null()) return T();
    Converted<Element<T>> inner = convert<Element<T>>(value, limits);
    if (std::holds_alternative<ValueProblem>(inner)) return make_problem<T>(value, limits);
    return T(std::get<0>(std::move(inner)));
  } else if constexpr (kIsList<T>) {
    if constexpr (kIsString<Element<T>>)
      if (is_list_of_one(value)) return convert<T>(Json::array({value}), limits);
    if (!value.is_array() || !limits.allow_size(value.size())) return make_problem<T>(value, limits);
    T list;
    for (const Json& element : value) {
      Converted<Element<T>> inner = convert<Element<T>>(element, limits.of_elements());
      if (auto* problem = std::get_if<ValueProblem>(&inner)) return ValueProblem{problem->text, list.size()};
      list.push_back(std::get<0>(std::move(inner)));
    }
    return list;
  } else {
    std::optional<T> typed = typed_value<T>(value, limits);
    if (!typed || !within_limits(*typed, limits)) return make_problem<T>(value, limits);
    return std::move(*typed);
  }
}

/// Writes an infinite number as none.
template <class T>
Json json_value(const T& value) {
  if constexpr (std::is_same_v<T, double>)
    if (std::isinf(value)) return "none";
  return value;
}

std::string type_name(const Json& value) {
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  return value.is_array() ? "list" : "mapping";
}

}  // namespace

Json read_target(const OptionTarget& target) {
  return std::visit(
      [](const auto* variable) -> Json {
        using T = std::remove_cvref_t<decltype(*variable)>;
        if constexpr (kIsOptional<T>) return *variable ? json_value(**variable) : Json(nullptr);
        if constexpr (!kIsOptional<T>) return json_value(*variable);
      },
      target);
}

std::optional<ValueProblem> check_value(const OptionTarget& target, const Limits& limits, const Json& value) {
  return std::visit(
      [&](const auto* variable) -> std::optional<ValueProblem> {
        auto converted = convert<std::remove_cvref_t<decltype(*variable)>>(value, limits);
        if (auto* problem = std::get_if<ValueProblem>(&converted)) return *problem;
        return std::nullopt;
      },
      target);
}

std::optional<ValueProblem> assign_value(const OptionTarget& target, const Limits& limits, const Json& value) {
  return std::visit(
      [&](auto* variable) -> std::optional<ValueProblem> {
        auto converted = convert<std::remove_cvref_t<decltype(*variable)>>(value, limits);
        if (auto* problem = std::get_if<ValueProblem>(&converted)) return *problem;
        *variable = std::get<0>(std::move(converted));
        return std::nullopt;
      },
      target);
}

std::string expected_text(const OptionTarget& target, const Limits& limits) {
  return std::visit(
      [&](const auto* variable) { return describe_expected<std::remove_cvref_t<decltype(*variable)>>(limits); },
      target);
}

bool limits_fit(const OptionTarget& target, const Limits& limits) {
  return std::visit(
      [&](const auto* variable) {
        using T = std::remove_cvref_t<decltype(*variable)>;
        if (limits.has_bounds() && !kIsNumber<Element<T>>) return false;
        if (!limits.choices().empty() && !kIsString<Element<T>>) return false;
        return !limits.is_not_empty() || kIsList<T> || kIsString<Element<T>>;
      },
      target);
}

std::string value_text(const Json& value, bool quoted) {
  constexpr size_t kMaxShown = 80;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value.is_string() && !quoted) text = text.substr(1, text.size() - 2);
  if (text.size() <= kMaxShown) return text;
  size_t end = kMaxShown;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not in the middle of a character
  return text.substr(0, end) + "...";
}

std::string value_and_type(const Json& value) {
  return value.is_null() ? "null" : value_text(value) + " (" + type_name(value) + ")";
}

}  // namespace keel
