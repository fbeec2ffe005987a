#pragma once

#include <cstring>
#include <string_view>

namespace keel::text {

/// Same result as text.find(needle, from) in linear time; std::string_view::find may be quadratic.
inline size_t find(std::string_view text, std::string_view needle, size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace keel::text
