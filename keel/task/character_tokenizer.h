#pragma once

#include <string>
#include <vector>

#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Creates a vocabulary of printable ASCII characters, the line feed and whole phrases. Phrases are matched first,
/// longest first. So fixed parts of a prompt are one token each, and numbers are split into digits.
Tokenizer character_tokenizer(const std::vector<std::string>& phrases);

}  // namespace keel
