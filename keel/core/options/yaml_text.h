#pragma once

#include <string>
#include <string_view>

#include "keel/core/json.h"

namespace keel {

/// The value of an unquoted YAML scalar by the YAML 1.2 core schema: `yes`, `on` and `1_000` are strings. Fails, naming
/// `place`, on what no option can hold: .inf, .nan and numbers that do not fit 64 bits.
Json plain_scalar(std::string_view text, const std::string& place);

/// Whether a scalar is written like a decimal number, however large.
bool is_number_text(std::string_view text);

/// `value` as it is written after "key: " in YAML, on one line; strings are quoted where they need it.
std::string yaml_inline(const Json& value);

/// A mapping as a YAML document; parse_config reads it back to the same tree.
std::string yaml_document(const Json& mapping);

}  // namespace keel
