#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libs/hftext/tokenizer/token_table.h"

namespace keel::text {

/// Builds a table from ids 0 to n - 1, each used once; anything else is an Error. Moves the tokens from `vocabulary`.
TokenTable dense_table(std::vector<std::pair<std::string, int64_t>>& vocabulary, const std::string& location);

/// The ids of "<0x00>" to "<0xFF>", -1 if a token is missing.
std::array<int32_t, 256> byte_fallback_ids(const TokenTable& tokens);

}  // namespace keel::text
