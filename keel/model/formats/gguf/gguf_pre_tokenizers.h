#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// A value of tokenizer.ggml.pre: how text is split into words before BPE.
struct GgufPreTokenizer {
  std::string_view name;
  const char* pattern = nullptr;  // null: the GPT-2 pattern, which is built into ByteLevel
  bool single_digits = false;     // digits are split off before the pattern is applied
  bool nfc = false;
  bool ignore_merges = false;  // a word that is a token is not split
  bool add_bos = false;        // default of tokenizer.ggml.add_bos_token

  /// The equivalent parts of tokenizer.json. `add_prefix_space`: a space is added before a text.
  Json normalizer() const;
  Json pre_tokenizer(bool add_prefix_space) const;
};

/// All supported values. Of equivalent ones, the first is written.
std::span<const GgufPreTokenizer> gguf_pre_tokenizers();

/// Finds the entry that is equivalent to a byte-level tokenizer.json, or nullptr. The entry can have a normalizer that
/// the file does not have, because GGUF readers apply none.
const GgufPreTokenizer* find_pre_tokenizer(const Json& tokenizer);

/// The flat list of steps of a normalizer or pre-tokenizer, without properties that do not affect tokens.
std::vector<Json> tokenizer_steps(const Json& part);
bool has_steps(const Json& part, const std::vector<Json>& steps);

}  // namespace keel
