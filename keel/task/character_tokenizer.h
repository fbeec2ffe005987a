#pragma once

#include <string>
#include <vector>

#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// A vocabulary of the printable ASCII characters, the line feed and whole phrases, which are found first, the longest
/// of them at each place. So a tiny model reads the fixed part of a prompt as one token and the rest digit by digit.
Tokenizer character_tokenizer(const std::vector<std::string>& phrases);

}  // namespace keel
