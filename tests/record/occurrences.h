#pragma once

#include <string>

namespace keel {

/// How often a text has this part.
inline size_t occurrences(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

}  // namespace keel
