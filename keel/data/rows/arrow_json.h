#pragma once

#include <cstdint>
#include <stdexcept>

#include "keel/core/json.h"

namespace arrow {
class Array;
}

namespace keel {

/// A row whose tree would take too much memory.
class RowTooLarge : public std::runtime_error {
 public:
  RowTooLarge() : std::runtime_error("the row is too large") {}
};

/// One value of an Arrow array as Json: what pyarrow's to_pylist() gives, where Json has a word for it. Throws where
/// the type has no form in Json. `room` is how many bytes of JSON text the value may take, about; what it takes is
/// subtracted, and a RowTooLarge is thrown when there is none left: a list of a billion nulls is a few bytes in a file.
Json json_of(const arrow::Array& array, int64_t index, int64_t& room);

}  // namespace keel
