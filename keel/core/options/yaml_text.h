#pragma once

#include <string>
#include <string_view>

#include "keel/core/json.h"

namespace keel {

/// Parses an unquoted YAML scalar by the YAML 1.2 core schema: `yes`, `on` and `1_000` are strings. Rejects .inf, .nan
/// and numbers that do not fit 64 bits, with an error at `location`.
Json plain_scalar(std::string_view text, const std::string& location);

/// Returns whether a scalar is a decimal number of any size.
bool is_number_text(std::string_view text);

/// Formats a value for YAML on one line after "key: ". Quotes strings if needed.
std::string yaml_inline(const Json& value);

/// Formats a mapping as a YAML document, which parse_config() parses to the same tree.
std::string yaml_document(const Json& mapping);

}  // namespace keel
