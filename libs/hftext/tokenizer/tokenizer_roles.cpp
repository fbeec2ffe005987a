#include "libs/hftext/tokenizer/tokenizer_roles.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {
namespace {

constexpr std::array kRoles = {"pad_token", "bos_token", "eos_token", "unk_token",
                               "sep_token", "cls_token", "mask_token"};

/// A role is a string or an object with a "content".
std::string role_text(const Component& file, const char* role) {
  const Json& value = file.at(role);
  const Json text = value.is_object() ? Component(value, file.place() + ": " + role).at("content") : value;
  if (text.is_null()) return "";
  if (!text.is_string()) {
    fail(ExitCode::kBadInput, file.place(), ": \"", role, "\" is ", shown(value), "; it must be a string");
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
                                              const std::string& place) {
  const Component first(config, place + ": tokenizer_config.json");
  const Component second(special_tokens_map, place + ": special_tokens_map.json");
  std::map<std::string, std::string> roles;
  for (const char* role : kRoles) {
    // A role that the first file sets to null is set: to none.
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
                                                    const std::string& place) {
  std::unordered_map<std::string, int32_t> ids;
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // its operator[] would search all entries for every word
  for (const std::string& word : words) {
    if (word.empty() || first_bad_utf8(word) || has_space(word)) {
      fail(ExitCode::kBadConfiguration, place, ": \"", word,
           "\" is not a word; a word is not empty, is UTF-8 and has no space");
    }
    const auto id = static_cast<int32_t>(ids.size());
    if (!ids.emplace(word, id).second) {
      fail(ExitCode::kBadConfiguration, place, ": \"", word, "\" occurs twice; a word must occur once");
    }
    entries.emplace_back(word, id);
  }

  // Without this list the Python side would also return token types, which causal language models refuse.
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"model_input_names", {"input_ids", "attention_mask"}},
                 {"clean_up_tokenization_spaces", false}};
  Json added = Json::array();
  for (const char* role : kRoles) {
    const auto found = roles.find(role);
    if (found == roles.end()) continue;
    if (!ids.contains(found->second)) {
      fail(ExitCode::kBadConfiguration, place, ": the ", role, " \"", found->second,
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

  // The format wants an unk_token; it is no word of the vocabulary, so an unknown word is an error on every side.
  // With no decoder, tokens are joined by one space.
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
