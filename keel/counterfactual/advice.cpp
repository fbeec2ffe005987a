#include "keel/counterfactual/advice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/counterfactual/step_facts.h"
#include "keel/record/tokens/token_reader.h"

namespace keel {
namespace {

std::vector<std::string> thresholds_of(const MethodSpec& spec) {
  const std::vector<std::string> names = threshold_parameters(spec.region);
  if (names.empty() || !properties(spec.region).has_boundary)
    fail(ExitCode::kBadConfiguration, spec.name, ": has no threshold to choose",
         names.empty() ? " (delta, threshold, eps, or low and high)" : ": it leaves no token outside",
         ". Fix: choose another with --method, such as dppo_tv, drpo or grpo");
  return names;
}

double parameter_value(const TrustRegion& region, const std::string& parameter) {
  for (const auto& [name, value] : number_parameters(region))
    if (name == parameter) return value;
  fail(ExitCode::kInternal, "no parameter ", parameter);
}

/// Rounds to this number of decimal digits.
double round_digits(double value, int digits) {
  const double scale = std::pow(10.0, digits - 1 - static_cast<int>(std::floor(std::log10(value) + 1e-9)));
  return std::round(value * scale) / scale;
}

/// Checks the value against the method's limits: a total variation is at most 1.
bool accepts_threshold(const MethodSpec& spec, double value) {
  try {
    with_threshold(spec, value);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

double threshold_of(const MethodSpec& spec) {
  double threshold = std::numeric_limits<double>::infinity();
  for (const std::string& name : thresholds_of(spec))
    if (const double value = parameter_value(spec.region, name); std::isfinite(value)) threshold = value;
  return threshold;
}

MethodSpec with_threshold(const MethodSpec& spec, double value) {
  MethodSpec result = spec;
  const std::vector<std::string> names = thresholds_of(spec);
  const double old_threshold = threshold_of(spec);
  std::string assignments;
  for (const std::string& name : names) {
    const double old_value = parameter_value(spec.region, name);
    if (std::isinf(old_value) && std::isfinite(old_threshold)) {  // unlimited on this side
      assignments += str_cat(assignments.empty() ? "" : ",", name, "=null");
      continue;
    }
    const double scaled = old_value == old_threshold ? value : round_digits(value * (old_value / old_threshold), 3);
    set_parameter(result.region, spec.method, name, scaled);
    assignments += str_cat(assignments.empty() ? "" : ",", name, "=", scaled);
  }
  result.name = spec.method + ":" + assignments;
  if (const auto problem = check_parameters(result.region))
    fail(ExitCode::kBadConfiguration, spec.method, ": ", problem->reason);
  return result;
}

std::vector<double> candidate_thresholds(const MethodSpec& spec, int per_decade) {
  std::vector<double> values;
  for (int decade = -4; decade < 2; ++decade)
    for (int i = 0; i < per_decade; ++i) {
      const int digits = per_decade == 3 ? 1 : 2;
      const double value = round_digits(std::pow(10.0, decade + static_cast<double>(i) / per_decade), digits);
      if (accepts_threshold(spec, value)) values.push_back(value);
    }
  return values;
}

Advice advise(const std::vector<std::filesystem::path>& files, const MethodSpec& spec,
              const std::vector<double>& thresholds, double target) {
  Advice advice{.comparison = {}, .thresholds = thresholds, .by_threshold = {}, .target = target};
  std::vector<double> candidates = candidate_thresholds(spec, /*per_decade=*/10);
  ComparisonRequest request;
  for (const double value : thresholds) request.methods.push_back(with_threshold(spec, value));
  for (const double value : candidates) request.methods.push_back(with_threshold(spec, value));
  advice.comparison = compare_methods(files, request);
  std::vector<MethodComparison>& methods = advice.comparison.methods;
  double min_distance = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double fraction = methods[thresholds.size() + i].decisions.outside.all.fraction();
    if (fraction <= 0 || (advice.best && std::abs(fraction - target) >= min_distance)) continue;
    advice.best = candidates[i], advice.best_fraction = fraction;
    min_distance = std::abs(fraction - target);
  }
  methods.resize(thresholds.size());
  advice.by_threshold = std::move(methods);
  methods.clear();
  return advice;
}

MethodSpec method_of_run(const std::filesystem::path& file) {
  const StepFacts facts = step_facts(TokenReader(file).metadata(), file.string());
  return {facts.method, facts.method, facts.region};
}

std::vector<const TokenTypeDifference*> most_often_outside(const MethodComparison& comparison) {
  std::vector<const TokenTypeDifference*> types;
  for (const TokenTypeDifference& type : comparison.types)
    if (type.outside > 0) types.push_back(&type);
  std::ranges::stable_sort(types, std::greater(), &TokenTypeDifference::outside);
  types.resize(std::min<size_t>(types.size(), 3));
  return types;
}

std::string settings_for(const MethodSpec& spec, double threshold) {
  static const std::vector<std::pair<std::string, std::string>> kKeys = {{"delta", "delta"},
                                                                         {"low", "delta_low"},
                                                                         {"high", "delta_high"},
                                                                         {"ratio_cap", "ratio_cap"},
                                                                         {"anchor", "anchor"}};
  const TrustRegion region = with_threshold(spec, threshold).region, defaults = find_method(spec.method, "").region;
  const std::vector<std::string> thresholds = thresholds_of(spec);
  // Resets the configuration's settings that would contradict the method.
  std::map<std::string, std::string> by_key;
  for (const auto& [name, key] : kKeys) by_key[name] = "null";
  std::vector<std::string> parameters;
  const auto add = [&](const std::string& name, const std::string& value, bool as_parameter) {
    if (std::ranges::find(kKeys, name, &std::pair<std::string, std::string>::first) != kKeys.end() && !as_parameter)
      by_key[name] = value;
    else
      parameters.push_back(name + "=" + value);
  };
  for (const auto& [name, value] : number_parameters(region))
    if (std::ranges::find(thresholds, name) != thresholds.end() || value != parameter_value(defaults, name))
      add(name, std::isinf(value) ? "null" : str_cat(value), /*as_parameter=*/std::isinf(value));
  const auto default_choices = choice_parameters(defaults);
  for (const auto& [name, choice] : choice_parameters(region))
    if (std::ranges::find(default_choices, std::pair(name, choice)) == default_choices.end())
      add(name, choice, /*as_parameter=*/false);
  std::string settings = "objective.method=" + spec.method;
  for (const auto& [name, key] : kKeys) settings += " objective." + key + "=" + by_key[name];
  return settings + " 'objective.parameters=[" + joined(parameters, ",") + "]'";
}

}  // namespace keel
