#pragma once

#include "keel/core/json.h"
#include "keel/text/jinja/value.h"

namespace keel::jinja {

/// A JSON tree as a value. Integers beyond 64 bits and texts that are not UTF-8 are an Error.
Value from_json(Runtime& runtime, const Json& tree);

}  // namespace keel::jinja
