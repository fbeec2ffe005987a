// Any bytes as JSON: the tree is the library's own, or both refuse; what is nested deep or made inexact is refused,
// never a crash. And as a row of `keel reward`: a member that is added or replaced leaves the others as they were.
// Build and run: fuzz/README.md.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/json_lines.h"
#include "keel/core/json_reader.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void compare_with_library(std::string_view text) {
  const keel::Json theirs = keel::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    const keel::Json ours = keel::parse_json(text);
    require(!theirs.is_discarded() && ours == theirs);
  } catch (const keel::JsonFault& fault) {
    require(fault.line() >= 1);
    require(theirs.is_discarded() || fault.is_depth() || text.find('\0') != text.npos);
  }
}

void change_row(std::string_view text) {
  const std::optional<keel::Json> row = keel::try_parse_json(text, {.depth = keel::kDataDepth, .repeated_keys = false});
  if (!row || !row->is_object() || text.starts_with("\xef")) return;
  keel::Json wanted = *row;
  for (const char* key : {"reward", "a"}) {
    const std::string changed = keel::cli::with_member(text, key, "[1.50]");
    wanted[key] = {1.5};
    require(keel::parse_json(changed, {.depth = keel::kDataDepth})[key] == wanted[key]);
    require(keel::cli::member_text(changed, key) == "[1.50]");
    keel::Json others = keel::parse_json(changed, {.depth = keel::kDataDepth}), before = *row;
    others.erase(key), before.erase(key);
    require(others == before);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  compare_with_library(text);
  change_row(text);
  for (const bool repeated : {false, true})
    keel::try_parse_json(text, {.depth = 3, .repeated_keys = repeated, .exact = true});
  return 0;
}
