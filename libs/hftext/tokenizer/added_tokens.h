#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/characters/traced_text.h"
#include "libs/hftext/regex/regex.h"
#include "libs/hftext/tokenizer/normalizer.h"
#include "libs/hftext/tokenizer/strict_object.h"
#include "libs/hftext/tokenizer/token_table.h"
#include "libs/hftext/tokenizer/trie.h"

namespace keel::text {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only between non-word characters
  bool lstrip = false;       // also removes the white space before it
  bool rstrip = false;       // also removes the white space after it
  bool normalized = false;   // matched after normalization, in its normalized form
  bool special = false;      // decode() skips it; encode() finds it only with parse_special
  std::string decoded = "";  // decoded text: the normalized form if `normalized`
  bool skipped = false;      // decode() skips it: the token with its decoded text is special, as in the package
};

/// Tokens that are matched in a text before the model tokenizes it.
class AddedTokens {
 public:
  /// Parses "added_tokens" of tokenizer.json. Tokens that are not in the model get the ids after its vocabulary.
  static AddedTokens from_json(const Json& added_tokens, const TokenTable& model, const std::string& location);

  /// Marks a token as special, for a role in tokenizer_config.json. A model token becomes an added token.
  void add_special(const std::string& content, int32_t id);
  /// Call after adding all tokens and before the first split().
  void build_tries(const Normalizer& normalizer, const std::string& location);

  /// The id of an added token.
  std::optional<int32_t> find(std::string_view content) const;
  /// Tokens that are not in the model, ordered by id.
  const std::vector<std::string>& extra() const { return extra_; }
  /// The added token with this id, if there is one.
  const AddedToken* at(int32_t id) const;

  enum class Stage { kBeforeNormalization, kAfterNormalization };
  /// Receives a part of the text without added tokens (`id` is empty), or one added token. `begin` is its offset.
  using Visit = std::function<void(std::string_view part, size_t begin, std::optional<int32_t> id)>;
  /// Matches special tokens only with `parse_special`, and only if none of their bytes is untrusted.
  void split(std::string_view text, Stage stage, bool parse_special, std::span<const ByteRange> untrusted,
             const Visit& visit) const;
  /// True if a special token is matched after normalization.
  bool has_normalized_special() const { return has_normalized_special_; }

 private:
  struct Match {
    int32_t index = Trie::kNoValue;
    size_t end = 0;
  };
  Match longest_match(const Trie& trie, std::string_view text, size_t at, std::span<const ByteRange> untrusted) const;
  bool is_whole_word(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::vector<std::string> extra_;
  Trie raw_trie_, normalized_trie_;
  bool has_raw_ = false, has_normalized_ = false, has_normalized_special_ = false;
  std::optional<Regex> word_;  // matches one word character
};

}  // namespace keel::text
