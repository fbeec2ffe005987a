#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/characters/traced_text.h"

namespace keel {

/// Special tokens by role; empty if there is none.
struct SpecialTokens {
  std::string pad, bos, eos;
};

struct EncodeOptions {
  bool add_special_tokens = false;            // adds the post-processor's tokens, such as <bos>
  bool parse_special = false;                 // parses special tokens in the text; not for untrusted text
  std::span<const ByteRange> untrusted = {};  // bytes that are never part of a special token
  bool is_continuation = false;               // follows another text: adds no prefix space
};

/// Converts text to token ids and back, as configured by tokenizer.json and tokenizer_config.json. Results equal those
/// of the Hugging Face libraries (tests/parity/tokenizer_parity_test.py); unsupported settings that could change ids
/// are Errors. Copies share all data; safe to use from several threads.
class Tokenizer {
 public:
  /// One token per word, in the given order. Words are separated by white space and must include the special tokens.
  static Tokenizer word_level(const std::vector<std::string>& words, const SpecialTokens& special);

  /// Creates a tokenizer from the two parsed files; `location` names them in errors.
  static Tokenizer from_json(const Json& tokenizer_json, const Json& tokenizer_config, std::string location);

  /// Creates a tokenizer from file contents by name: tokenizer.json and optionally tokenizer_config.json,
  /// special_tokens_map.json and chat_template.jinja.
  static Tokenizer from_files(std::map<std::string, std::string> files, std::string location);

  /// Loads the files of a model folder; only tokenizer.json is required.
  static Tokenizer load(const std::filesystem::path& folder);

  /// File contents by name, to save the tokenizer with a model. Files that were read are returned byte for byte.
  std::map<std::string, std::string> files() const;

  /// `text` must be UTF-8. Text outside the vocabulary is an Error if there is no unknown token.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Skips ids without a token, because an output layer may be larger than the vocabulary. Invalid UTF-8 becomes
  /// U+FFFD. Ignores clean_up_tokenization_spaces, because removing spaces would change the model's text.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  /// The bytes of each id in a text where `before` precedes them; special tokens are spelled out. The bytes may be a
  /// part of a character, and are empty for an id without a token.
  std::vector<std::string> pieces(std::span<const int32_t> ids, std::optional<int32_t> before = std::nullopt) const;

  /// The vocabulary entry of an id; an Error if there is none.
  const std::string& token(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view token) const;

  int64_t size() const;
  std::optional<int32_t> pad_id() const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  const std::string* find_token(int64_t id) const;
  /// The token that decode() uses for an id; null to skip it.
  const std::string* decoded_token(int32_t id, bool skip_special) const;

  std::shared_ptr<const Parts> parts_;
};

}  // namespace keel
