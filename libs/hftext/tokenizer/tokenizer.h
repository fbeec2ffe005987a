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

/// The words of a vocabulary that play a role; an empty string means that no word plays it.
struct SpecialTokens {
  std::string pad, bos, eos;
};

struct EncodeOptions {
  bool add_special_tokens = false;  // what the post-processor adds around a text, such as <bos>
  bool parse_special = false;       // the text of a special token becomes that token: never for text from outside,
  std::span<const ByteRange> untrusted = {};  // which may be these characters: no special token has a byte of them
  bool is_continuation = false;  // behind another text: no blank is put in front of it, as the beginning of one may get
};

/// Text to token ids and back, as the files tokenizer.json and tokenizer_config.json of a model folder say.
/// Agrees with the Hugging Face libraries on the same files (tests/parity/tokenizer_parity_test.py), or refuses them:
/// whatever would change an id and is not understood is an Error that names it. A copy shares everything; safe to use
/// from several threads.
class Tokenizer {
 public:
  /// One token per word, in the order given; words are separated by white space. The special tokens must be among them.
  static Tokenizer word_level(const std::vector<std::string>& words, const SpecialTokens& special);

  /// From the contents of the two files; `place` names them in errors.
  static Tokenizer from_json(const Json& tokenizer_json, const Json& tokenizer_config, std::string place);

  /// From the bytes of tokenizer.json and, where present, tokenizer_config.json, special_tokens_map.json and
  /// chat_template.jinja, by name.
  static Tokenizer from_files(std::map<std::string, std::string> files, std::string place);

  /// From the files in a model folder; all but tokenizer.json may be missing.
  static Tokenizer load(const std::filesystem::path& folder);

  /// File name to bytes: what has to lie beside a model so that this tokenizer can be loaded again, here or elsewhere.
  /// Files that were read are given back byte for byte.
  std::map<std::string, std::string> files() const;

  /// `text` must be UTF-8. Without an unknown token, a word or character that is not in the vocabulary is an Error.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Ids that have no token are passed over: a model's output layer may be wider than its vocabulary. Bytes that are no
  /// UTF-8 become U+FFFD. Spaces before punctuation stay,
  /// whatever clean_up_tokenization_spaces says to Python's transformers: taking them away would change what a model
  /// said.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  /// What each id stands for in a text where `before` comes first, special tokens spelled out: its bytes, which may be
  /// a part of a character. Nothing for an id that has no token.
  std::vector<std::string> pieces(std::span<const int32_t> ids, std::optional<int32_t> before = std::nullopt) const;

  /// The text of one id as the vocabulary writes it; an Error when the id has none.
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
  /// What decode() makes of an id; null when that is nothing.
  const std::string* decoded_token(int32_t id, bool skip_special) const;

  std::shared_ptr<const Parts> parts_;
};

}  // namespace keel
