#pragma once

#include "keel/core/json.h"
#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// A JSON tree as a value, whose texts are `untrusted` or trusted as those of the template are. Integers beyond 64 bits
/// and texts that are not UTF-8 are an Error.
Value from_json(Runtime& runtime, const Json& tree, bool untrusted);

}  // namespace keel::jinja
