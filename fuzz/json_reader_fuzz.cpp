// Any bytes as JSON: Keel's reader and nlohmann's give the same tree or both fail; Keel's also rejects deep nesting and
// inexact numbers.
// Build and run: fuzz/README.md.

#include <cstdint>
#include <cstdlib>
#include <string>

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
  } catch (const keel::JsonParseError& fault) {
    require(fault.line() >= 1);
    require(theirs.is_discarded() || fault.is_depth() || text.find('\0') != text.npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  compare_with_library(text);
  for (const bool repeated : {false, true})
    keel::try_parse_json(text, {.depth = 3, .repeated_keys = repeated, .exact = true});
  return 0;
}
