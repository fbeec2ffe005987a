#pragma once

#include "keel/core/json.h"
#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// Converts JSON to a value whose strings are trusted unless `untrusted`. Rejects integers beyond 64 bits and
/// invalid UTF-8.
Value from_json(Runtime& runtime, const Json& tree, bool untrusted);

}  // namespace keel::jinja
