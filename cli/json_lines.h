#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"

namespace keel::cli {

/// One row of a JSONL file: an object.
struct JsonLine {
  Json value;
  uint64_t number = 0;  // from 1
  std::string place;    // "rows.jsonl:7"
  std::string text;     // as it came
  std::string out{};    // printed in place of `value`, where it is set
};

/// A member's value as the row spells it: a number keeps all its digits. The row is valid JSON and has the key.
std::string_view member_text(std::string_view row, std::string_view key);

/// The row with a member set to `value` (JSON) and nothing else of it changed: added at its end, or in the place of the
/// one that is there.
std::string with_member(std::string_view row, std::string_view key, std::string_view value);

/// Reads the rows of a file ("-" is standard input) some thousand at a time, lets `work` change each, from up to
/// `threads` threads (0: one per core), and prints them in the order they came. The first bad row is an Error that
/// names its place (kBadInput, or what `work` threw); the rows before it are printed. An integer beyond 64 bits, which
/// only `text` has all digits of, is a bad one unless `keeps_digits`: `work` reads numbers by member_text().
void for_each_line(const std::string& path, size_t threads, bool keeps_digits,
                   const std::function<void(JsonLine& line)>& work);

}  // namespace keel::cli
