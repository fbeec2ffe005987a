#pragma once

#include <cstring>
#include <string_view>

namespace keel::text {

/// As text.find(wanted, from), in time linear in both whatever they are: the standard library's may take their product.
inline size_t find(std::string_view text, std::string_view wanted, size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace keel::text
