#pragma once

#include <map>
#include <string>

#include "keel/core/json.h"

namespace keel::text {

/// Reads the token of each role ("eos_token") from tokenizer_config.json, else from special_tokens_map.json. `location`
/// names the folder in errors.
std::map<std::string, std::string> read_roles(const Json& config, const Json& special_tokens_map,
                                              const std::string& location);

/// The roles in the format of special_tokens_map.json.
Json roles_json(const std::map<std::string, std::string>& roles);

/// The tokenizer files of a word-level vocabulary.
std::map<std::string, std::string> word_level_files(const std::vector<std::string>& words,
                                                    const std::map<std::string, std::string>& roles,
                                                    const std::string& location);

}  // namespace keel::text
