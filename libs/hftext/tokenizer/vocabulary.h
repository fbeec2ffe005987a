#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libs/hftext/tokenizer/token_table.h"

namespace keel::text {

/// Turns ids 0 to n - 1, each once, into a table; anything else is an Error. Takes the tokens out of `vocabulary`.
TokenTable dense_table(std::vector<std::pair<std::string, int64_t>>& vocabulary, const std::string& place);

/// The ids of "<0x00>" to "<0xFF>", -1 where a token is missing.
std::array<int32_t, 256> byte_fallback_ids(const TokenTable& tokens);

}  // namespace keel::text
