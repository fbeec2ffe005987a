#include "keel/objective/regions.h"

#include <map>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/objective/methods.h"

namespace keel {
namespace {

/// Shows every parameter to one of the two functions.
template <class Number, class Word>
void for_each_parameter(TrustRegion& region, Number number, Word word) {
  const ParameterVisitor visitor{number, word};
  std::visit([&](auto& r) { r.visit(visitor); }, region);
}

std::string listed(Words words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

/// `now` is the parameter's value so far. Null means "no limit": of a threshold or a cap, and of what has none yet, but
/// not of a weight or a lower bound, which would swallow everything else.
double number_from(const Json& value, Limit limit, double now, const std::string& place) {
  const bool positive = limit == Limit::kPositive, may_be_null = positive || now == kUnlimited;
  const char* wanted = positive ? "; wanted a number above 0" : "; wanted a number from 0 on";
  const char* or_null = may_be_null ? ", or null (None) for no limit" : "";
  if (value.is_null() && may_be_null) return kUnlimited;
  if (!value.is_number()) fail(ExitCode::kBadConfiguration, place, " is ", value.dump(), wanted, or_null);
  const double number = value.get<double>();
  if (!(number >= 0) || (positive && number == 0))
    fail(ExitCode::kBadConfiguration, place, " is ", number, wanted, or_null);
  return number;
}

int place_from(const Json& value, Words words, const std::string& place) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();  // true is "true"
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == text) return static_cast<int>(i);
  fail(ExitCode::kBadConfiguration, place, " is ", value.dump(), "; known: ", listed(words));
}

/// The names of the papers and of the goldens beside the table's.
const std::map<std::string, std::string> kOtherMethodNames{
    {"ppo_clip", "ppo"}, {"dppo_binary_tv", "dppo_tv"}, {"dppo_binary_kl", "dppo_kl"}};
const std::map<std::string, std::string> kOtherParameterNames{{"C", "ratio_cap"}, {"c", "ratio_cap"}};

std::string translated(const std::map<std::string, std::string>& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

}  // namespace

void set_parameter(TrustRegion& region, const std::string& method, const std::string& name, const Json& value) {
  const std::string wanted = translated(kOtherParameterNames, name), place = method + "'s parameter \"" + name + "\"";
  bool found = false;
  for_each_parameter(
      region,
      [&](std::string_view each, double& target, Limit limit) {
        if (each == wanted) found = true, target = number_from(value, limit, target, place);
      },
      [&](std::string_view each, int& target, Words words) {
        if (each == wanted) found = true, target = place_from(value, words, place);
      });
  if (found) return;
  std::string known;
  for (const std::string& each : parameter_names(region)) known += (known.empty() ? "" : ", ") + each;
  const std::optional<std::string> near = nearest_name(name, parameter_names(region));
  fail(ExitCode::kBadConfiguration, "the method ", method, " has no parameter \"", name, "\"; ",
       near ? "did you mean " + *near + "? " : "", "it has: ", known);
}

TrustRegion make_region(const std::string& method, const Json& parameters) {
  for (const Method& row : methods()) {
    if (row.name != translated(kOtherMethodNames, method)) continue;
    TrustRegion region = row.region;
    for (const auto& [name, value] : parameters.items()) set_parameter(region, method, name, value);
    return region;
  }
  fail(ExitCode::kBadConfiguration, "no method \"", method, "\"; `keel methods` lists the known ones");
}

std::vector<std::string> parameter_names(const TrustRegion& region) {
  std::vector<std::string> names;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [&](std::string_view name, double&, Limit) { names.emplace_back(name); },
      [&](std::string_view name, int&, Words) { names.emplace_back(name); });
  return names;
}

std::vector<std::pair<std::string, double>> parameters(const TrustRegion& region) {
  std::vector<std::pair<std::string, double>> result;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [&](std::string_view name, double& value, Limit) { result.emplace_back(name, value); },
      [](std::string_view, int&, Words) {});
  return result;
}

std::vector<std::pair<std::string, std::string>> word_parameters(const TrustRegion& region) {
  std::vector<std::pair<std::string, std::string>> result;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [](std::string_view, double&, Limit) {},
      [&](std::string_view name, int& place, Words words) { result.emplace_back(name, words[place]); });
  return result;
}

}  // namespace keel
