#pragma once

#include <cstddef>
#include <istream>
#include <string>

namespace keel {

/// Reads the next line, without its newline; false at the end. A line of more than `most` bytes is cut off soon after
/// them, so that a stream without newlines takes no more memory.
inline bool next_line(std::istream& input, std::string& line, size_t most) {
  char piece[4096];
  line.clear();
  while (line.size() <= most) {
    input.getline(piece, sizeof(piece));
    const bool ended = !input.fail(), filled = !ended && input.gcount() == sizeof(piece) - 1;
    if (!ended && !filled) return !line.empty();  // nothing was left to read
    const bool has_newline = ended && !input.eof();
    line.append(piece, static_cast<size_t>(input.gcount()) - (has_newline ? 1 : 0));
    if (ended) return true;
    input.clear();  // a full piece counts as a failure
  }
  return true;
}

}  // namespace keel
