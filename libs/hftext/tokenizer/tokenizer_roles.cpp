#include "libs/hftext/tokenizer/tokenizer_roles.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "keel/core/error.h"
#include "keel/core/untrusted_text.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {
namespace {

constexpr std::array kRoles = {"pad_token", "bos_token", "eos_token", "unk_token",
                               "sep_token", "cls_token", "mask_token"};

/// A role is a string or an object with a "content".
std::string role_text(const StrictObject& file, const char* role) {
  const Json& value = file.at(role);
  const Json text = value.is_object() ? StrictObject(value, file.location() + ": " + role).at("content") : value;
  if (text.is_null()) return "";
  if (!text.is_string()) {
    fail(ExitCode::kBadInput, file.location(), ": \"", role, "\" is ", preview(value), "; it must be a string");
  }
  return text.get<std::string>();
}

bool has_space(std::string_view text) {
  for (size_t at = 0; at < text.size(); at += code_point_at(text, at).size) {
    if (is_white_space(code_point_at(text, at).value)) return true;
  }
  return false;
}

}  // namespace

std::map<std::string, std::string> read_roles(const Json& config, const Json& special_tokens_map,
                                              const std::string& location) {
  const StrictObject first(config, location + ": tokenizer_config.json");
  const StrictObject second(special_tokens_map, location + ": special_tokens_map.json");
  std::map<std::string, std::string> roles;
  for (const char* role : kRoles) {
    // A null role in the first file means no token and is not overridden.
    const bool named = config.contains(role);
    std::string text = role_text(named ? first : second, role);
    if (!text.empty()) roles[role] = std::move(text);
  }
  return roles;
}

Json roles_json(const std::map<std::string, std::string>& roles) {
  Json tree = Json::object();
  for (const char* role : kRoles) {
    if (roles.contains(role)) tree[role] = roles.at(role);
  }
  return tree;
}

std::map<std::string, std::string> word_level_files(const std::vector<std::string>& words,
                                                    const std::map<std::string, std::string>& roles,
                                                    const std::string& location) {
  std::unordered_map<std::string, int32_t> ids;
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // operator[] would search all entries for every word
  for (const std::string& word : words) {
    if (word.empty() || first_bad_utf8(word) || has_space(word)) {
      fail(ExitCode::kBadConfiguration, location, ": \"", word,
           "\" is not a word; words are non-empty UTF-8 without spaces");
    }
    const auto id = static_cast<int32_t>(ids.size());
    if (!ids.emplace(word, id).second) {
      fail(ExitCode::kBadConfiguration, location, ": \"", word, "\" occurs twice; a word must occur once");
    }
    entries.emplace_back(word, id);
  }

  // Without this list transformers would also return token types, which causal language models reject.
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"model_input_names", {"input_ids", "attention_mask"}},
                 {"clean_up_tokenization_spaces", false}};
  Json added = Json::array();
  for (const char* role : kRoles) {
    const auto found = roles.find(role);
    if (found == roles.end()) continue;
    if (!ids.contains(found->second)) {
      fail(ExitCode::kBadConfiguration, location, ": the ", role, " \"", found->second,
           "\" is not among the words; add it");
    }
    config[role] = found->second;
    const auto same = [&](const Json& token) { return token["content"] == found->second; };
    if (std::any_of(added.begin(), added.end(), same)) continue;  // one word, two roles
    added.push_back({{"id", ids[found->second]},
                     {"content", found->second},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }

  // The format requires an unk_token. It is not in the vocabulary, so an unknown word is an error in transformers, too.
  // Without a decoder, tokens are joined by one space.
  const Json tree = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                     {"post_processor", nullptr},
                     {"decoder", nullptr},
                     {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}};
  return {{"tokenizer.json", tree.dump(2) + "\n"},
          {"tokenizer_config.json", config.dump(2) + "\n"},
          {"special_tokens_map.json", roles_json(roles).dump(2) + "\n"}};
}

}  // namespace keel::text
