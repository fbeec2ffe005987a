#include "keel/core/histogram.h"

#include <algorithm>

namespace keel {

Json to_json(const Histogram& histogram) {
  return {{"count", histogram.count},  {"sum", histogram.sum},     {"sum_squares", histogram.sum_of_squares},
          {"min", histogram.smallest}, {"max", histogram.largest}, {"limits", histogram.limits},
          {"counts", histogram.counts}};
}

std::optional<Histogram> parse_histogram(const Json& json) {
  const auto is_array_of = [&](const char* key, bool (Json::*has_type)() const noexcept) {
    const auto found = json.find(key);
    return found != json.end() && found->is_array() &&
           std::all_of(found->begin(), found->end(), [&](const Json& item) { return (item.*has_type)(); });
  };
  const auto is_number = [&](const char* key) { return json.contains(key) && json[key].is_number(); };
  if (!json.is_object() || !is_array_of("limits", &Json::is_number) ||
      !is_array_of("counts", &Json::is_number_integer) || json["limits"].empty() ||
      json["limits"].size() != json["counts"].size() || !json.contains("count") || !json["count"].is_number_integer() ||
      !is_number("sum") || !is_number("sum_squares") || !is_number("min") || !is_number("max"))
    return std::nullopt;
  return Histogram{.limits = json["limits"],
                   .counts = json["counts"],
                   .count = json["count"],
                   .sum = json["sum"],
                   .sum_of_squares = json["sum_squares"],
                   .smallest = json["min"],
                   .largest = json["max"]};
}

}  // namespace keel
