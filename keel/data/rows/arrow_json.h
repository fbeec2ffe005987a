#pragma once

#include <cstdint>
#include <stdexcept>

#include "keel/core/json.h"

namespace arrow {
class Array;
}

namespace keel {

/// A row whose JSON value would take too much memory.
class RowTooLarge : public std::runtime_error {
 public:
  RowTooLarge() : std::runtime_error("the row is too large") {}
};

/// Converts one value of an Arrow array to Json, as pyarrow's to_pylist() does. Throws if the type has no JSON form.
/// Subtracts the approximate size of the JSON text from `budget`, in bytes, and throws RowTooLarge if it is used up: a
/// list of a billion nulls has only a few bytes in a file.
Json arrow_to_json(const arrow::Array& array, int64_t index, int64_t& budget);

}  // namespace keel
