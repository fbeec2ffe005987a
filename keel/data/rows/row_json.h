#pragma once

#include <string>
#include <string_view>

#include "keel/core/json.h"

namespace keel {

/// Parses a row, which must be a JSON object without duplicate keys, lone surrogates, NUL, invalid UTF-8 or numbers
/// beyond 64 bits. Otherwise throws BadRow at `place`.
Json parse_row(std::string_view text, const std::string& place);

}  // namespace keel
