#include "keel/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/file.h"

namespace keel {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";
constexpr std::array kRoles = {"pad_token", "bos_token", "eos_token", "unk_token",
                               "sep_token", "cls_token", "mask_token"};

/// Number of bytes of the white-space character that `text` begins with (Unicode White_Space, as UTF-8), else 0.
size_t leading_space(std::string_view text) {
  constexpr std::array<std::string_view, 8> kWide = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\xA8",
                                                     "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
  if (text.empty()) return 0;
  if (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r')) return 1;
  for (std::string_view space : kWide) {
    if (text.starts_with(space)) return space.size();
  }
  if (!text.starts_with("\xE2\x80") || text.size() < 3) return 0;
  const auto last = static_cast<unsigned char>(text[2]);  // U+2000 to U+200A, the spaces of typography
  return last >= 0x80 && last <= 0x8A ? 3 : 0;
}

bool has_space(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (leading_space(text.substr(at)) > 0) return true;
  }
  return false;
}

const Json& member(const Json& tree, const char* key) {
  static const Json kNull;
  const auto found = tree.is_object() ? tree.find(key) : tree.end();
  return found == tree.end() ? kNull : *found;
}

/// Refuses a component of tokenizer.json whose type is not among `known`; an absent component has type "null".
void check_component(const Json& tree, const char* key, const std::vector<std::string>& known,
                     const std::string& place) {
  const Json& component = member(tree, key);
  const Json& named = member(component, "type");
  std::string type = component.is_null() ? "null" : "without a type";
  if (named.is_string()) type = named.get<std::string>();
  if (std::find(known.begin(), known.end(), type) != known.end()) return;
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  fail(ExitCode::kBadInput, place, ": ", kTokenizerFile, ": \"", key, "\" is ", type, "; this version knows ", list,
       ": use a model whose tokenizer has such a ", key);
}

/// Everything in tokenizer.json that would change an id must be something that is implemented here.
void check_components(const Json& tree, const std::string& place) {
  if (!tree.is_object()) fail(ExitCode::kBadInput, place, ": ", kTokenizerFile, " is not a JSON object");
  check_component(tree, "model", {"WordLevel"}, place);
  check_component(tree, "pre_tokenizer", {"WhitespaceSplit"}, place);
  for (const char* key : {"normalizer", "post_processor", "decoder", "truncation", "padding"}) {
    check_component(tree, key, {"null"}, place);
  }
}

/// The text of a special token in tokenizer_config.json, written as a string or as an object with a "content".
std::string role_text(const Json& config, const char* role, const std::string& place) {
  const Json& value = member(config, role);
  const Json& text = value.is_object() ? member(value, "content") : value;
  if (text.is_null()) return "";
  if (!text.is_string()) {
    fail(ExitCode::kBadInput, place, ": ", kConfigFile, ": \"", role, "\" is ", value.dump(), "; it must be a string");
  }
  return text.get<std::string>();
}

Json parse_file(const std::filesystem::path& path, const std::string& bytes) {
  try {
    // Not Json::parse: keeping the order of keys, it searches all earlier keys for each of a vocabulary's 100,000.
    return Json(nlohmann::json::parse(bytes));
  } catch (const nlohmann::json::parse_error& error) {
    fail(ExitCode::kBadInput, path.string(), ": not valid JSON: ", error.what());
  }
}

std::string file_bytes(const Json& tree) { return tree.dump(2) + "\n"; }

}  // namespace

Tokenizer Tokenizer::word_level(const std::vector<std::string>& words, const SpecialTokens& special) {
  const std::string place = "word-level vocabulary";
  std::unordered_map<std::string, int32_t> ids;
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // its operator[] would search all entries for every word
  for (const std::string& word : words) {
    if (word.empty() || has_space(word)) {
      fail(ExitCode::kBadConfiguration, place, ": \"", word, "\" is not a word; a word is not empty and has no space");
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
  const std::pair<const char*, const std::string&> roles[] = {
      {"pad_token", special.pad}, {"bos_token", special.bos}, {"eos_token", special.eos}};
  for (const auto& [role, text] : roles) {
    if (text.empty()) continue;
    if (!ids.contains(text)) {
      fail(ExitCode::kBadConfiguration, place, ": the ", role, " \"", text, "\" is not among the words; add it");
    }
    config[role] = text;
    added.push_back({{"id", ids[text]},
                     {"content", text},
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
  return from_json(tree, config, place);
}

Tokenizer Tokenizer::from_json(const Json& tokenizer_json, const Json& tokenizer_config, std::string place) {
  check_components(tokenizer_json, place);
  Tokenizer tokenizer;
  tokenizer.place_ = std::move(place);
  tokenizer.read_vocabulary(member(tokenizer_json, "model"));
  tokenizer.read_added_tokens(member(tokenizer_json, "added_tokens"));
  const Json roles = tokenizer.read_roles(tokenizer_config);
  tokenizer.files_ = {{kTokenizerFile, file_bytes(tokenizer_json)},
                      {kConfigFile, file_bytes(tokenizer_config)},
                      {kSpecialFile, file_bytes(roles)}};
  return tokenizer;
}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const std::string tokenizer_bytes = read_file(folder / kTokenizerFile);
  const std::string config_bytes = read_file(folder / kConfigFile);
  Tokenizer tokenizer = from_json(parse_file(folder / kTokenizerFile, tokenizer_bytes),
                                  parse_file(folder / kConfigFile, config_bytes), folder.string());
  tokenizer.files_[kTokenizerFile] = tokenizer_bytes;  // a copy of a tokenizer is a copy to the byte
  tokenizer.files_[kConfigFile] = config_bytes;
  return tokenizer;
}

void Tokenizer::read_vocabulary(const Json& model) {
  const Json& vocabulary = member(model, "vocab");
  if (!vocabulary.is_object() || vocabulary.empty()) {
    fail(ExitCode::kBadInput, place_, ": ", kTokenizerFile, ": \"model.vocab\" must be an object from word to id");
  }
  tokens_.resize(vocabulary.size());
  std::vector<bool> seen(vocabulary.size(), false);
  for (const auto& [word, value] : vocabulary.items()) {
    const int64_t id = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (id < 0 || id >= size() || seen[id]) {
      fail(ExitCode::kBadInput, place_, ": ", kTokenizerFile, ": the word \"", word, "\" has the id ", value.dump(),
           "; the ", size(), " words must have the ids 0 to ", size() - 1, ", each once");
    }
    seen[id] = true;
    tokens_[id] = word;
    ids_.emplace(word, static_cast<int32_t>(id));
  }
  special_.assign(tokens_.size(), false);
  const Json& unknown = member(model, "unk_token");
  if (unknown.is_string()) unknown_id_ = id_of(unknown.get<std::string>());
}

void Tokenizer::read_added_tokens(const Json& added_tokens) {
  for (const Json& added : added_tokens) {
    const Json& content = member(added, "content");
    const std::string text = content.is_string() ? content.get<std::string>() : "";
    if (text.empty()) {
      fail(ExitCode::kBadInput, place_, ": ", kTokenizerFile, ": the added token ", added.dump(),
           " has no \"content\"");
    }
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
      if (member(added, flag) != Json(true)) continue;
      fail(ExitCode::kBadInput, place_, ": ", kTokenizerFile, ": the added token \"", text, "\" has \"", flag,
           "\": true; this version knows only false");
    }
    const int64_t id = id_of(text).value_or(static_cast<int32_t>(size()));
    if (member(added, "id") != Json(id)) {
      fail(ExitCode::kBadInput, place_, ": ", kTokenizerFile, ": the added token \"", text, "\" has the id ",
           member(added, "id").dump(), "; its place in the vocabulary is ", id);
    }
    add_token(text, member(added, "special") == Json(true));
  }
}

/// Also returns the roles as special_tokens_map.json has them.
Json Tokenizer::read_roles(const Json& config) {
  Json roles = Json::object();
  for (const char* role : kRoles) {
    const std::string text = role_text(config, role, place_);
    if (text.empty()) continue;
    if (!id_of(text)) {
      fail(ExitCode::kBadInput, place_, ": ", kConfigFile, ": the ", role, " \"", text,
           "\" is not in the vocabulary of ", kTokenizerFile, "; add it there, or set ", role, " to null");
    }
    roles[role] = text;
    add_token(text, true);  // as the Python side does when it is given a role
  }
  const auto id = [&](const char* role) { return id_of(roles.value(role, std::string())); };
  pad_id_ = id("pad_token");
  bos_id_ = id("bos_token");
  eos_id_ = id("eos_token");
  return roles;
}

void Tokenizer::add_token(const std::string& text, bool special) {
  const auto [entry, is_new] = ids_.emplace(text, static_cast<int32_t>(size()));
  const int32_t id = entry->second;
  if (is_new) {
    tokens_.push_back(text);
    special_.push_back(false);
  }
  special_[id] = special_[id] || special;
  if (std::find(added_.begin(), added_.end(), id) != added_.end()) return;
  const auto shorter = [&](int32_t other) { return tokens_[other].size() < text.size(); };
  added_.insert(std::find_if(added_.begin(), added_.end(), shorter), id);
}

std::optional<int32_t> Tokenizer::id_of(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<int32_t> Tokenizer::added_token_at(std::string_view rest) const {
  for (int32_t id : added_) {
    if (rest.starts_with(tokens_[id])) return id;
  }
  return std::nullopt;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  size_t words_from = 0;
  for (size_t at = 0; at < text.size();) {
    const std::optional<int32_t> added = added_token_at(text.substr(at));
    if (!added) {
      ++at;
      continue;
    }
    encode_words(text.substr(words_from, at - words_from), ids);
    ids.push_back(*added);
    at += tokens_[*added].size();
    words_from = at;
  }
  encode_words(text.substr(words_from), ids);
  return ids;
}

void Tokenizer::encode_words(std::string_view text, std::vector<int32_t>& ids) const {
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    while (at < text.size() && leading_space(text.substr(at)) == 0) ++at;
    if (at > start) {
      const std::string_view word = text.substr(start, at - start);
      const std::optional<int32_t> known = id_of(word);
      const std::optional<int32_t> id = known ? known : unknown_id_;
      if (!id) {
        fail(ExitCode::kBadInput, place_, ": the word \"", word, "\" is not in the vocabulary of ", size(),
             " tokens, which has no unknown token; use its words, or a model whose vocabulary has this one");
      }
      ids.push_back(*id);
    }
    at += leading_space(text.substr(at));
  }
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  bool first = true;
  for (int32_t id : ids) {
    if (id < 0 || id >= size() || (skip_special && special_[id])) continue;
    if (!first) text += ' ';
    text += tokens_[id];
    first = false;
  }
  return text;
}

const std::string& Tokenizer::token(int32_t id) const {
  if (id < 0 || id >= size()) {
    fail(ExitCode::kBadInput, place_, ": the id ", id, " has no token; ids are 0 to ", size() - 1,
         ": do the model and the tokenizer belong together?");
  }
  return tokens_[id];
}

}  // namespace keel
