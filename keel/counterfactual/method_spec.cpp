#include "keel/counterfactual/method_spec.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; begin = end + 1, end = text.find(separator, begin))
    parts.emplace_back(trimmed(std::string_view(text).substr(begin, end - begin)));
  parts.emplace_back(trimmed(std::string_view(text).substr(begin)));
  return parts;
}

/// Splits at commas, which separate both methods and parameters: a part with "=" and without ":" is a parameter.
std::vector<std::string> separate_methods(const std::string& text) {
  std::vector<std::string> methods;
  for (const std::string& part : split(text, ',')) {
    const bool is_parameter = part.find('=') != std::string::npos && part.find(':') == std::string::npos;
    if (is_parameter && !methods.empty() && methods.back().find(':') != std::string::npos)
      methods.back() += "," + part;
    else
      methods.push_back(part);
  }
  return methods;
}

MethodSpec parse_method(const std::string& text) {
  const size_t colon = text.find(':');
  MethodSpec spec{.name = text, .method = text.substr(0, colon), .region = {}};
  if (spec.method.find('=') != std::string::npos)
    fail(ExitCode::kBadConfiguration, "--method has \"", text,
         "\"; expected NAME, or NAME:PARAMETER=VALUE,PARAMETER=VALUE, as dppo_tv:low=0.1,high=0.2");
  const Method& method = find_method(spec.method, "--method: unknown method");
  Json parameters = Json::object();
  if (colon != std::string::npos)
    for (const std::string& assignment : split(text.substr(colon + 1), ',')) {
      const size_t equals = assignment.find('=');
      if (equals == std::string::npos || equals == 0)
        fail(ExitCode::kBadConfiguration, "--method has \"", text,
             "\"; expected PARAMETER=VALUE after the colon, got \"", assignment, "\"");
      const std::string name(trimmed(assignment.substr(0, equals))), value(trimmed(assignment.substr(equals + 1)));
      std::vector<std::string> names = {name};
      if (name == "delta") names = threshold_parameters(method.region);
      if (names.empty()) names = {name};  // make_region reports it
      for (const std::string& parameter : names) {
        if (parameters.contains(parameter))
          fail(ExitCode::kBadConfiguration, "--method has \"", text, "\", which sets ", parameter,
               " twice; keep one of them");
        parameters[parameter] = try_parse_json(value).value_or(Json(value));
      }
    }
  spec.method = method.name;
  spec.region = make_region(method.name, parameters);
  return spec;
}

}  // namespace

std::vector<MethodSpec> parse_methods(const std::vector<std::string>& texts) {
  std::vector<MethodSpec> specs;
  for (const std::string& text : texts)
    for (const std::string& method : separate_methods(text)) {
      specs.push_back(parse_method(method));
      const auto same = [&](const MethodSpec& other) { return other.name == specs.back().name; };
      if (std::ranges::count_if(specs, same) > 1)
        fail(ExitCode::kBadConfiguration, "--method names \"", specs.back().name, "\" twice. Fix: name it once");
    }
  return specs;
}

std::vector<std::string> threshold_parameters(const TrustRegion& region) {
  const std::vector<std::string> names = parameter_names(region);
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  for (const char* name : {"delta", "threshold", "eps"})
    if (has(name)) return {name};
  if (has("low") && has("high")) return {"low", "high"};
  return {};
}

}  // namespace keel
