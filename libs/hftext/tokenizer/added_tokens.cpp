#include "libs/hftext/tokenizer/added_tokens.h"

#include <algorithm>

#include "keel/core/error.h"
#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex_dialect.h"

namespace keel::text {
namespace {

AddedToken read_token(const StrictObject& fields) {
  fields.allow_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.content = fields.string("content");
  if (token.content.empty()) fields.fail_value("content", "a non-empty string");
  token.id = static_cast<int32_t>(fields.integer("id", 0, INT32_MAX));
  token.single_word = fields.boolean("single_word", false);
  token.lstrip = fields.boolean("lstrip", false);
  token.rstrip = fields.boolean("rstrip", false);
  token.special = fields.boolean("special", false);
  token.normalized = fields.boolean("normalized", !token.special);
  return token;
}

/// Start of the white space before `end`, not below `min_begin`.
size_t white_space_begin(std::string_view text, size_t end, size_t min_begin) {
  size_t begin = end;
  while (begin > min_begin && is_white_space(code_point_before(text, begin).value))
    begin -= code_point_before(text, begin).size;
  return std::max(begin, min_begin);
}

/// End of the white space after `end`.
size_t white_space_end(std::string_view text, size_t end) {
  while (end < text.size() && is_white_space(code_point_at(text, end).value)) end += code_point_at(text, end).size;
  return end;
}

}  // namespace

AddedTokens AddedTokens::from_json(const Json& added_tokens, const TokenTable& model, const std::string& location) {
  AddedTokens result;
  if (added_tokens.is_null()) return result;
  if (!added_tokens.is_array())
    fail(ExitCode::kBadInput, location, " is ", preview(added_tokens), "; it must be an array");
  for (size_t i = 0; i < added_tokens.size(); ++i) {
    const StrictObject fields(added_tokens[i], location + "[" + std::to_string(i) + "]");
    AddedToken token = read_token(fields);
    if (!result.by_content_.emplace(token.content, result.tokens_.size()).second) {
      fail(ExitCode::kBadInput, fields.location(), ": the added token \"", preview_text(token.content),
           "\" occurs twice");
    }
    // The package assigns ids in list order and ignores "id"; a file where the two differ is ambiguous.
    const int32_t model_id = model.find(token.content);
    const int32_t id =
        model_id != TokenTable::kNone ? model_id : model.size() + static_cast<int32_t>(result.extra_.size());
    if (token.id != id) {
      fail(ExitCode::kBadInput, fields.location(), ": the added token \"", preview_text(token.content),
           "\" has the id ", token.id, "; by its position it is ", id, ": ids must be consecutive");
    }
    if (model_id == TokenTable::kNone) result.extra_.push_back(token.content);
    result.by_id_.emplace(id, result.tokens_.size());
    result.tokens_.push_back(std::move(token));
  }
  return result;
}

void AddedTokens::add_special(const std::string& content, int32_t id) {
  const auto [entry, is_new] = by_content_.emplace(content, tokens_.size());
  if (is_new) {
    by_id_.emplace(id, tokens_.size());
    tokens_.push_back({.id = id, .content = content});
  }
  tokens_[entry->second].special = true;
}

void AddedTokens::build_tries(const Normalizer& normalizer, const std::string& location) {
  const auto insert = [&](Trie& trie, const std::string& key, size_t index) {
    if (key.size() > Trie::kMaxKey) {
      fail(ExitCode::kBadInput, location, ": the added token \"", preview_text(tokens_[index].content), "\" has ",
           key.size(), " bytes; at most ", Trie::kMaxKey, " are allowed. Remove it, or use another model");
    }
    trie.insert(key, static_cast<int32_t>(index));
  };
  // If two tokens are equal after normalization, the special one wins.
  RegexBudget budget;
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      token.decoded = token.normalized ? normalizer.apply(token.content, budget).text : token.content;
      const auto same = by_content_.find(token.decoded);
      token.skipped = same != by_content_.end() && tokens_[same->second].special;
      if (!token.normalized) {
        insert(raw_trie_, token.content, i);
        has_raw_ = true;
        continue;
      }
      if (token.decoded.empty()) {
        fail(ExitCode::kBadInput, location, ": the added token \"", preview_text(token.content),
             "\" is empty after normalization; set its \"normalized\" to false");
      }
      insert(normalized_trie_, token.decoded, i);
      has_normalized_ = true;
      has_normalized_special_ = has_normalized_special_ || special;
    }
  }
  const auto is_single_word = [](const AddedToken& token) { return token.single_word; };
  if (std::any_of(tokens_.begin(), tokens_.end(), is_single_word)) {
    require_unicode_tables("an added token with single_word", location);
    word_ = Regex::compile_pcre2(rust_word_set(/*negated=*/false), location);
  }
}

std::optional<int32_t> AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  if (found == by_content_.end()) return std::nullopt;
  return tokens_[found->second].id;
}

const AddedToken* AddedTokens::at(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

bool AddedTokens::is_whole_word(std::string_view text, size_t begin, size_t end) const {
  const auto is_word = [&](size_t at, size_t size) { return word_->find(text.substr(at, size)).has_value(); };
  if (begin > 0) {
    const size_t size = code_point_before(text, begin).size;
    if (is_word(begin - size, size)) return false;
  }
  return end == text.size() || !is_word(end, code_point_at(text, end).size);
}

/// Returns the longest token at `at`. Ignores special tokens that are partly untrusted: text of a user next to a
/// special token of the template must not hide it.
AddedTokens::Match AddedTokens::longest_match(const Trie& trie, std::string_view text, size_t at,
                                              std::span<const ByteRange> untrusted) const {
  Match longest;
  uint32_t node = Trie::kRoot;
  for (size_t end = at; end < text.size();) {
    node = trie.next(node, static_cast<unsigned char>(text[end++]));
    if (node == Trie::kNoNode) break;
    if (trie.value(node) == Trie::kNoValue) continue;
    const bool special = tokens_[static_cast<size_t>(trie.value(node))].special;
    if (special && touches(untrusted, at, end) && !covers(untrusted, at, end)) continue;
    longest = {trie.value(node), end};
  }
  return longest;
}

/// Takes the leftmost, then longest match. As in the package, a rejected match still hides tokens that it overlaps.
void AddedTokens::split(std::string_view text, Stage stage, bool parse_special, std::span<const ByteRange> untrusted,
                        const Visit& visit) const {
  const bool has_tokens = stage == Stage::kBeforeNormalization ? has_raw_ : has_normalized_;
  const Trie& trie = stage == Stage::kBeforeNormalization ? raw_trie_ : normalized_trie_;
  size_t covered = 0, spaces = 0;  // end of the text passed to `visit`; end of the last white space after a token
  for (size_t position = 0; has_tokens && position < text.size();) {
    if (!trie.can_start_with(static_cast<unsigned char>(text[position]))) {
      ++position;
      continue;
    }
    const Match match = longest_match(trie, text, position, untrusted);
    if (match.index == Trie::kNoValue) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.index)];
    size_t begin = position, end = match.end;
    position = end;
    if (token.special && (!parse_special || touches(untrusted, begin, end))) continue;
    if (token.single_word && !is_whole_word(text, begin, end)) continue;
    if (token.lstrip) begin = white_space_begin(text, begin, covered);
    if (token.rstrip) {
      if (end > spaces) spaces = white_space_end(text, end);
      end = spaces;
    }
    if (begin >= end) continue;  // the previous token removed it as white space
    if (begin > covered) visit(text.substr(covered, begin - covered), covered, std::nullopt);
    visit(text.substr(begin, end - begin), begin, token.id);
    covered = end;
  }
  if (covered < text.size()) visit(text.substr(covered), covered, std::nullopt);
}

}  // namespace keel::text
