#pragma once

#include <optional>
#include <vector>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// The `attribute` parameter of filters: a key, an index, or a path such as "author.name".
class AttributePath {
 public:
  /// None is the empty path and selects the item itself.
  AttributePath(Runtime& runtime, const Value& attribute, std::optional<Value> default_value = std::nullopt);
  Value get(Runtime& runtime, Value item) const;

 private:
  std::vector<Value> parts_;
  std::optional<Value> default_value_;  // for a missing part
};

/// Lower-cases strings and returns other values unchanged: the default comparison of filters.
Value ignore_case(Runtime& runtime, const Value& value);

}  // namespace keel::jinja
