#pragma once

#include <optional>
#include <vector>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// What filters take as `attribute`: a key, an index, or "author.name" for a path of them.
class AttributePath {
 public:
  /// None is the empty path, which leads to the item itself.
  AttributePath(Runtime& runtime, const Value& attribute, std::optional<Value> otherwise = std::nullopt);
  Value get(Runtime& runtime, Value item) const;

 private:
  std::vector<Value> parts_;
  std::optional<Value> otherwise_;  // for a part that is missing
};

/// Texts in lower case, other values as they are: how the filters compare unless told otherwise.
Value ignore_case(Runtime& runtime, const Value& value);

}  // namespace keel::jinja
