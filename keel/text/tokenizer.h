#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// The words of a vocabulary that play a role; an empty string means that no word plays it.
struct SpecialTokens {
  std::string pad, bos, eos;
};

/// Text to token ids and back, as the files tokenizer.json and tokenizer_config.json of a model folder say.
/// Agrees with the Hugging Face libraries on the same files (tests/parity/tokenizer_parity.py), or refuses them.
class Tokenizer {
 public:
  /// One token per word, in the order given; words are separated by white space. The special tokens must be among them.
  static Tokenizer word_level(const std::vector<std::string>& words, const SpecialTokens& special);

  /// From the contents of the two files; `place` names them in errors. Anything that would change an id and is not
  /// understood is refused.
  static Tokenizer from_json(const Json& tokenizer_json, const Json& tokenizer_config, std::string place);

  /// From the two files in a model folder.
  static Tokenizer load(const std::filesystem::path& folder);

  /// File name to bytes: what has to lie beside a model so that this tokenizer can be loaded again, here or elsewhere.
  std::map<std::string, std::string> files() const { return files_; }

  /// A word that is not in the vocabulary becomes the unknown token; without one it is an Error that names the word.
  std::vector<int32_t> encode(std::string_view text) const;

  /// Ids that have no token are passed over: a model's output layer may be wider than its vocabulary.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  /// The text of one id; an Error when the id has none.
  const std::string& token(int32_t id) const;

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  std::optional<int32_t> pad_id() const { return pad_id_; }
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }

 private:
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;  // look up a piece of the text without copying it
  };

  Tokenizer() = default;
  void read_vocabulary(const Json& model);
  void read_added_tokens(const Json& added_tokens);
  Json read_roles(const Json& config);
  void add_token(const std::string& text, bool special);
  std::optional<int32_t> id_of(std::string_view text) const;
  std::optional<int32_t> added_token_at(std::string_view rest) const;
  void encode_words(std::string_view text, std::vector<int32_t>& ids) const;

  std::string place_;
  std::map<std::string, std::string> files_;
  std::vector<std::string> tokens_;  // by id
  std::vector<bool> special_;        // by id: left out by decode
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
  std::vector<int32_t> added_;  // tokens found anywhere in a text, before it is split into words; longest first
  std::optional<int32_t> unknown_id_, pad_id_, bos_id_, eos_id_;
};

}  // namespace keel
