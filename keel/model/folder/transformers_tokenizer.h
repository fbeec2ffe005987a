#pragma once

#include <filesystem>
#include <string>

namespace keel {

/// Returns a warning if AutoTokenizer of transformers 5 loads a tokenizer other than the folder's tokenizer.json, else
/// an empty string. For Qwen2Tokenizer it takes only vocabulary and merges from the file and builds the rest itself.
std::string find_tokenizer_mismatch(const std::filesystem::path& folder);

}  // namespace keel
