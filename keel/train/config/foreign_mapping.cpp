#include "keel/train/config/foreign_mapping.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/options/option_value.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

/// transformers' _convert_str_dict: digits with at most one point are a number, and signs and exponents are not.
Json without_quotes(const std::string& text) {
  const std::string lower = lower_case(text);
  if (lower == "true" || lower == "false") return lower == "true";
  const bool is_number = std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '.'; }) &&
                         std::count(text.begin(), text.end(), '.') <= 1 &&
                         std::any_of(text.begin(), text.end(), is_digit);
  if (!is_number) return text;
  const size_t zeros = std::min(text.find_first_not_of('0'), text.size() - 1);  // 007 is 7
  return plain_scalar(text.substr(is_digit(text[zeros]) || zeros == 0 ? zeros : zeros - 1), text);
}

void lose_quotes(Json& mapping) {
  for (Json& value : mapping) {
    if (value.is_object()) lose_quotes(value);
    if (value.is_string()) value = without_quotes(value.get<std::string>());
  }
}

}  // namespace

Json mapping_in_text(const Json& value) {
  if (!value.is_string() || !value.get_ref<const std::string&>().starts_with('{')) return value;
  std::optional<Json> mapping = try_parse_json(value.get<std::string>());
  if (!mapping)
    fail(ExitCode::kBadConfiguration, "got ", shown(value), ", which is read as JSON and is none; write it as a ",
         "mapping, without quotes around it: {enable_thinking: false}");
  lose_quotes(*mapping);
  return *mapping;
}

}  // namespace keel
