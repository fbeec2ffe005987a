#include "keel/objective/regions/region_parameters.h"

#include <cmath>
#include <map>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

template <class Number, class Choice>
void for_each_parameter(TrustRegion& region, Number number, Choice choice) {
  const ParameterVisitor visitor{number, choice};
  std::visit([&](auto& r) { r.visit(visitor); }, region);
}

std::string comma_separated(Choices choices) {
  std::string text;
  for (const std::string_view name : choices) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// Limits that keep a threshold, its inverse and their products with a ratio within float32.
constexpr double kMin = 1e-20, kMax = 1e20;

struct Range {
  double min, max;
  const char* description;
};

Range get_limits(NumberRange range) {
  switch (range) {
    case NumberRange::kPositive:
      return {kMin, kMax, "a number above 0 (1e-20 to 1e20)"};
    case NumberRange::kNonNegative:
      return {0, kMax, "a number from 0 to 1e20"};
    case NumberRange::kUnitInterval:
      return {0, 1, "a number from 0 to 1"};
    case NumberRange::kAtLeastOne:
      return {1, kMax, "a number from 1 to 1e20"};
    case NumberRange::kTopK:
      return {1, 128, "a whole number from 1 to 128"};
  }
  fail(ExitCode::kInternal, "unknown number range: ", static_cast<int>(range));
}

/// Parses a number parameter whose value so far is `current`. None and null mean "no limit"; they are allowed if the
/// range starts above 0 or the current value is unlimited, but not for a count.
double parse_number(const Json& value, NumberRange kind, double current, const std::string& location) {
  const Range range = get_limits(kind);
  const bool count = kind == NumberRange::kTopK, may_be_null = !count && (range.min > 0 || current == kUnlimited);
  const char* or_null = may_be_null ? ", or none for no limit" : "";
  const bool is_none = value.is_null() || value == "none";
  if (is_none && may_be_null) return kUnlimited;
  if (is_none) fail(ExitCode::kBadConfiguration, location, " is none; expected ", range.description);
  if (!value.is_number())
    fail(ExitCode::kBadConfiguration, location, " is ", value.dump(), "; expected ", range.description, or_null);
  const double number = value.get<double>();
  if (!(number >= range.min && number <= range.max) || (count && number != std::floor(number)))
    fail(ExitCode::kBadConfiguration, location, " is ", number, "; expected ", range.description, or_null);
  return number;
}

int parse_choice(const Json& value, Choices choices, const std::string& location) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();  // true is "true"
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i] == text) return static_cast<int>(i);
  fail(ExitCode::kBadConfiguration, location, " is ", value.dump(), "; known: ", comma_separated(choices));
}

/// Returns a k or support that is set but has no effect.
std::optional<InvalidParameter> find_unused(const TrustRegion& region) {
  const auto unused = [&](const std::string& name, const auto& value) {
    return invalid_parameter(name, name, " is ", value,
                             ", but the divergence does not use the k most likely tokens; expected the divergence "
                             "topk_tv or topk_kl, or no ",
                             name);
  };
  for (const auto& [name, value] : number_parameters(region))
    if (!has_effect(region, name) && value != kDefaultTopK) return unused(name, value);
  for (const auto& [name, choice] : choice_parameters(region))
    if (!has_effect(region, name) && choice != choices_of(TopKSupport::kUnion)[0]) return unused(name, choice);
  return {};
}

}  // namespace

bool has_effect(const TrustRegion& region, const std::string& name) {
  return requirements(region).top_k > 0 || (name != "k" && name != "support");
}

std::optional<InvalidParameter> check_parameters(const TrustRegion& region) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : number_parameters(region)) numbers[name] = value;
  if (const auto found = find_unused(region)) return found;
  for (const std::string& name : properties(region).tv_thresholds)
    if (numbers.at(name) > 1 && numbers.at(name) != kUnlimited)
      return invalid_parameter(name, name, " is ", numbers.at(name),
                               ", but a total variation is at most 1, so no token would be blocked; expected at most "
                               "1, or none for no limit");
  return std::visit(
      [](const auto& r) -> std::optional<InvalidParameter> {
        if constexpr (requires { r.check_parameters(); })
          return r.check_parameters();
        else
          return {};
      },
      region);
}

std::optional<InvalidParameter> check_length(const TrustRegion& region, double valid_tokens) {
  return std::visit(
      [&](const auto& r) -> std::optional<InvalidParameter> {
        if constexpr (requires { r.check_length(valid_tokens); })
          return r.check_length(valid_tokens);
        else
          return {};
      },
      region);
}

std::string parameter_name(const std::string& name) { return name == "C" || name == "c" ? "ratio_cap" : name; }

void set_parameter(TrustRegion& region, const std::string& method, const std::string& name, const Json& value) {
  const std::string parameter = parameter_name(name), location = method + "'s parameter \"" + name + "\"";
  bool found = false;
  for_each_parameter(
      region,
      [&](std::string_view each, double& target, NumberRange range) {
        if (each == parameter) found = true, target = parse_number(value, range, target, location);
      },
      [&](std::string_view each, int& target, Choices choices) {
        if (each == parameter) found = true, target = parse_choice(value, choices, location);
      });
  if (found) return;
  const std::string known = joined(parameter_names(region));
  const std::optional<std::string> near = nearest_name(name, parameter_names(region));
  fail(ExitCode::kBadConfiguration, "the method ", method, " has no parameter \"", name, "\"; ",
       near ? "did you mean " + *near + "? " : "", known.empty() ? "it has none" : "it has: " + known);
}

std::vector<std::string> parameter_names(const TrustRegion& region) {
  std::vector<std::string> names;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [&](std::string_view name, double&, NumberRange) { names.emplace_back(name); },
      [&](std::string_view name, int&, Choices) { names.emplace_back(name); });
  return names;
}

std::vector<std::pair<std::string, double>> number_parameters(const TrustRegion& region) {
  std::vector<std::pair<std::string, double>> result;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [&](std::string_view name, double& value, NumberRange) { result.emplace_back(name, value); },
      [](std::string_view, int&, Choices) {});
  return result;
}

std::vector<std::pair<std::string, std::string>> choice_parameters(const TrustRegion& region) {
  std::vector<std::pair<std::string, std::string>> result;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [](std::string_view, double&, NumberRange) {},
      [&](std::string_view name, int& index, Choices choices) { result.emplace_back(name, choices[index]); });
  return result;
}

}  // namespace keel
