#pragma once

#include <map>
#include <string>

#include "keel/core/json.h"

namespace keel::text {

/// Role ("eos_token") to the text of its token, as tokenizer_config.json says or, for roles it does not name,
/// special_tokens_map.json. `place` names the folder in errors.
std::map<std::string, std::string> read_roles(const Json& config, const Json& special_tokens_map,
                                              const std::string& place);

/// The roles as special_tokens_map.json has them.
Json roles_json(const std::map<std::string, std::string>& roles);

/// The files of a vocabulary of words that are separated by white space.
std::map<std::string, std::string> word_level_files(const std::vector<std::string>& words,
                                                    const std::map<std::string, std::string>& roles,
                                                    const std::string& place);

}  // namespace keel::text
