#pragma once

#include <functional>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel::cli {

/// One row of a JSONL file: an object.
struct JsonLine {
  Json value;
  uint64_t number = 0;   // from 1
  std::string location;  // "rows.jsonl:7"
};

/// Reads the rows of a file ("-" is standard input) in batches, lets `work` modify each on up to `threads` threads (0:
/// one per core), and prints them in order. Throws an Error with the line for the first invalid row (kBadInput, or the
/// Error of `work`), after printing the rows before it. Integers above 64 bits are invalid.
void for_each_line(const std::string& path, size_t threads, const std::function<void(JsonLine& line)>& work);

}  // namespace keel::cli
