#pragma once

#include <string>
#include <string_view>

#include "keel/core/json.h"

namespace keel {

/// One row's JSON text as a tree: an object, without duplicate keys, lone surrogates, NUL, invalid UTF-8, or a number
/// that 64 bits cannot hold. Anything else is a BadRow at `place`.
Json parse_row(std::string_view text, const std::string& place);

}  // namespace keel
