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
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along,
  bool rstrip = false;       // and after it
  bool normalized = false;   // is looked for after normalization, in its own normalized form
  bool special = false;      // has a meaning and no text: left out by decode, found by encode only when asked
  std::string decoded = "";  // what decode makes of it: its normalized form, where it has one,
  bool left_out = false;     // unless it is left out, which that form decides as well; the package does so
};

/// Tokens that are found in a text before the model sees it.
class AddedTokens {
 public:
  /// The "added_tokens" of tokenizer.json. Those that the model does not have get the ids that follow its own.
  static AddedTokens from_json(const Json& added_tokens, const TokenTable& model, const std::string& place);

  /// Makes a token special, as a role in tokenizer_config.json does; one of the model becomes an added token.
  void add_special(const std::string& content, int32_t id);
  /// After all tokens are there, before the first split.
  void prepare(const Normalizer& normalizer, const std::string& place);

  /// The id of a token that was added on top of the model's.
  std::optional<int32_t> find(std::string_view content) const;
  /// Tokens on top of the model's, in the order of their ids.
  const std::vector<std::string>& extra() const { return extra_; }
  /// The added token with this id, if there is one.
  const AddedToken* at(int32_t id) const;

  enum class Stage { kBeforeNormalization, kAfterNormalization };
  /// A part of the text without added tokens (`id` is empty) or one added token; `begin` is where it starts.
  using Visit = std::function<void(std::string_view part, size_t begin, std::optional<int32_t> id)>;
  /// Special tokens are found only if asked for, and only where they have no byte in common with the `untrusted` ones.
  void split(std::string_view text, Stage stage, bool parse_special, std::span<const ByteRange> untrusted,
             const Visit& visit) const;
  /// Whether a special token is looked for after normalization.
  bool special_after() const { return special_after_; }

 private:
  struct Match {
    int32_t index = Trie::kNoValue;
    size_t end = 0;
  };
  Match longest_at(const Trie& trie, std::string_view text, size_t at, std::span<const ByteRange> untrusted) const;
  bool stands_alone(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::vector<std::string> extra_;
  Trie before_, after_;
  bool any_before_ = false, any_after_ = false, special_after_ = false;
  std::optional<Regex> word_;  // one word character
};

}  // namespace keel::text
