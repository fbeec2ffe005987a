#include "libs/hftext/tokenizer/vocabulary.h"

#include <cstdio>

#include "keel/core/error.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {

TokenTable dense_table(std::vector<std::pair<std::string, int64_t>>& vocabulary, const std::string& location) {
  const auto count = static_cast<int64_t>(vocabulary.size());
  if (count == 0 || count > INT32_MAX / 2) {
    fail(ExitCode::kBadInput, location, ".vocab has ", count,
         " tokens; it must be a non-empty object from token to id");
  }
  std::vector<std::pair<std::string, int64_t>*> by_id(vocabulary.size(), nullptr);
  for (auto& entry : vocabulary) {
    const int64_t id = entry.second;
    if (id < 0 || id >= count || by_id[static_cast<size_t>(id)] != nullptr) {
      fail(ExitCode::kBadInput, location, ".vocab: the token \"", preview_text(entry.first), "\" has the id ", id,
           "; the ", count, " tokens must have the ids 0 to ", count - 1, ", each once");
    }
    by_id[static_cast<size_t>(id)] = &entry;
  }
  TokenTable table;
  table.reserve(vocabulary.size());
  for (auto* entry : by_id) {
    const std::string token_preview = preview_text(entry->first);
    if (!table.add(std::move(entry->first))) {
      fail(ExitCode::kBadInput, location, ".vocab: the token \"", token_preview, "\" occurs twice");
    }
  }
  return table;
}

std::array<int32_t, 256> byte_fallback_ids(const TokenTable& tokens) {
  std::array<int32_t, 256> ids;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    ids[byte] = tokens.find(name);
  }
  return ids;
}

}  // namespace keel::text
