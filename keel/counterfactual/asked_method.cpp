#include "keel/counterfactual/asked_method.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

std::vector<std::string> separated(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; begin = end + 1, end = text.find(separator, begin))
    parts.emplace_back(trimmed(std::string_view(text).substr(begin, end - begin)));
  parts.emplace_back(trimmed(std::string_view(text).substr(begin)));
  return parts;
}

/// A comma separates parameters as well as methods; what has a value and names no method is a parameter.
std::vector<std::string> separate_methods(const std::string& text) {
  std::vector<std::string> methods;
  for (const std::string& part : separated(text, ',')) {
    const bool is_parameter = part.find('=') != std::string::npos && part.find(':') == std::string::npos;
    if (is_parameter && !methods.empty() && methods.back().find(':') != std::string::npos)
      methods.back() += "," + part;
    else
      methods.push_back(part);
  }
  return methods;
}

AskedMethod asked_method(const std::string& text) {
  const size_t colon = text.find(':');
  AskedMethod asked{.name = text, .method = text.substr(0, colon), .region = {}};
  if (asked.method.find('=') != std::string::npos)
    fail(ExitCode::kBadConfiguration, "--method has \"", text,
         "\"; expected NAME, or NAME:PARAMETER=VALUE,PARAMETER=VALUE, as dppo_tv:low=0.1,high=0.2");
  const Method& row = find_method(asked.method, "--method has");
  Json parameters = Json::object();
  if (colon != std::string::npos)
    for (const std::string& assignment : separated(text.substr(colon + 1), ',')) {
      const size_t equals = assignment.find('=');
      if (equals == std::string::npos || equals == 0)
        fail(ExitCode::kBadConfiguration, "--method has \"", text,
             "\"; expected PARAMETER=VALUE behind the colon, not \"", assignment, "\"");
      const std::string name(trimmed(assignment.substr(0, equals))), value(trimmed(assignment.substr(equals + 1)));
      std::vector<std::string> names = {name};
      if (name == "delta") names = threshold_parameters(row.region);
      if (names.empty()) names = {name};  // refused as what the method has not
      for (const std::string& each : names) {
        if (parameters.contains(each))
          fail(ExitCode::kBadConfiguration, "--method has \"", text, "\", which sets ", each,
               " twice; keep one of them");
        parameters[each] = try_parse_json(value).value_or(Json(value));
      }
    }
  asked.method = row.name;
  asked.region = make_region(row.name, parameters);
  return asked;
}

}  // namespace

std::vector<AskedMethod> asked_methods(const std::vector<std::string>& texts) {
  std::vector<AskedMethod> asked;
  for (const std::string& text : texts)
    for (const std::string& method : separate_methods(text)) {
      asked.push_back(asked_method(method));
      const auto same = [&](const AskedMethod& other) { return other.name == asked.back().name; };
      if (std::ranges::count_if(asked, same) > 1)
        fail(ExitCode::kBadConfiguration, "--method names \"", asked.back().name, "\" twice; name each once");
    }
  return asked;
}

std::vector<std::string> threshold_parameters(const TrustRegion& region) {
  const std::vector<std::string> names = parameter_names(region);
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  for (const char* one : {"delta", "threshold", "eps"})
    if (has(one)) return {one};
  if (has("low") && has("high")) return {"low", "high"};
  return {};
}

}  // namespace keel
