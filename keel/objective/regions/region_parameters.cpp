#include "keel/objective/regions/region_parameters.h"

#include <cmath>
#include <map>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

/// Shows every parameter to one of the two functions.
template <class Number, class Word>
void for_each_parameter(TrustRegion& region, Number number, Word word) {
  const ParameterVisitor visitor{number, word};
  std::visit([&](auto& r) { r.visit(visitor); }, region);
}

std::string listed(Choices words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

/// Beyond these a threshold, its inverse or their product with a ratio leaves float32.
constexpr double kLeast = 1e-20, kMost = 1e20;

struct Range {
  double least, most;
  const char* wanted;
};

Range range_of(NumberRange limit) {
  switch (limit) {
    case NumberRange::kPositive:
      return {kLeast, kMost, "a number above 0 (1e-20 to 1e20)"};
    case NumberRange::kNonNegative:
      return {0, kMost, "a number from 0 on (to 1e20)"};
    case NumberRange::kUnitInterval:
      return {0, 1, "a number from 0 to 1"};
    case NumberRange::kAtLeastOne:
      return {1, kMost, "a number from 1 on (to 1e20)"};
    case NumberRange::kTopK:
      return {1, 64, "a whole number from 1 to 64"};
  }
  fail(ExitCode::kInternal, "no such limit: ", static_cast<int>(limit));
}

/// `now` is the parameter's value so far. Null means "no limit": of a threshold or a cap, and of what has none yet, but
/// not of a weight or a lower bound, which would swallow everything else, nor of a count.
double number_from(const Json& value, NumberRange limit, double now, const std::string& place) {
  const Range range = range_of(limit);
  const bool count = limit == NumberRange::kTopK, may_be_null = !count && (range.least > 0 || now == kUnlimited);
  const char* or_null = may_be_null ? ", or null (None) for no limit" : "";
  if (value.is_null() && may_be_null) return kUnlimited;
  if (value.is_null()) fail(ExitCode::kBadConfiguration, place, " is null (None); expected ", range.wanted);
  if (!value.is_number())
    fail(ExitCode::kBadConfiguration, place, " is ", value.dump(), "; expected ", range.wanted, or_null);
  const double number = value.get<double>();
  if (!(number >= range.least && number <= range.most) || (count && number != std::floor(number)))
    fail(ExitCode::kBadConfiguration, place, " is ", number, "; expected ", range.wanted, or_null);
  return number;
}

int place_from(const Json& value, Choices words, const std::string& place) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();  // true is "true"
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == text) return static_cast<int>(i);
  fail(ExitCode::kBadConfiguration, place, " is ", value.dump(), "; known: ", listed(words));
}

/// A k or support that was set and that nothing would read.
std::optional<InvalidParameter> unread(const TrustRegion& region) {
  const auto said = [&](const std::string& name, const auto& value) {
    return invalid_parameter(
        name, name, " is ", value,
        ", but the divergence is not over the sampler's k likeliest tokens; expected the divergence "
        "topk_tv or topk_kl, or no ",
        name);
  };
  for (const auto& [name, value] : number_parameters(region))
    if (!has_effect(region, name) && value != kDefaultTopK) return said(name, value);
  for (const auto& [name, word] : choice_parameters(region))
    if (!has_effect(region, name) && word != choices_of(TopKSupport::kUnion)[0]) return said(name, word);
  return {};
}

}  // namespace

bool has_effect(const TrustRegion& region, const std::string& name) {
  return requirements(region).top_k > 0 || (name != "k" && name != "support");
}

std::optional<InvalidParameter> check_parameters(const TrustRegion& region) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : number_parameters(region)) numbers[name] = value;
  if (const auto found = unread(region)) return found;
  for (const std::string& name : properties(region).tv_thresholds)
    if (numbers.at(name) > 1 && numbers.at(name) != kUnlimited)
      return invalid_parameter(
          name, name, " is ", numbers.at(name),
          ", but a total variation is at most 1, so that nothing would be blocked; expected at most "
          "1, or null (None) for no limit");
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
  const std::string wanted = parameter_name(name), place = method + "'s parameter \"" + name + "\"";
  bool found = false;
  for_each_parameter(
      region,
      [&](std::string_view each, double& target, NumberRange limit) {
        if (each == wanted) found = true, target = number_from(value, limit, target, place);
      },
      [&](std::string_view each, int& target, Choices words) {
        if (each == wanted) found = true, target = place_from(value, words, place);
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
      [&](std::string_view name, int& place, Choices words) { result.emplace_back(name, words[place]); });
  return result;
}

}  // namespace keel
