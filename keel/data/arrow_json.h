#pragma once

#include <cstdint>

#include "keel/core/json.h"

namespace arrow {
class Array;
}

namespace keel {

/// One value of an Arrow array as Json: what pyarrow's to_pylist() gives, where Json has a word for it. Throws where
/// the type has no form in Json.
Json json_of(const arrow::Array& array, int64_t index);

}  // namespace keel
