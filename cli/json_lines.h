#pragma once

#include <functional>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel::cli {

/// One row of a JSONL file: an object.
struct JsonLine {
  Json value;
  uint64_t number = 0;  // from 1
  std::string place;    // "rows.jsonl:7"
};

/// Reads the rows of a file ("-" is standard input) some thousand at a time, lets `work` change each, from up to
/// `threads` threads (0: one per core), and prints them in the order they came. The first bad row is an Error that
/// names its place (kBadInput, or what `work` threw); the rows before it are printed. An integer beyond 64 bits is bad.
void for_each_line(const std::string& path, size_t threads, const std::function<void(JsonLine& line)>& work);

}  // namespace keel::cli
