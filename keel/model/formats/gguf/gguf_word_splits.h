#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// How one name of tokenizer.ggml.pre cuts text into words before the merges.
struct WordSplit {
  std::string_view name;
  const char* pattern = nullptr;  // none: GPT-2's, which the ByteLevel pre-tokenizer has built in
  bool single_digits = false;     // digits stand alone before the pattern is applied
  bool nfc = false;
  bool whole_words_first = false;  // a word that is a token is taken without looking at the merges
  bool begins_with_bos = false;    // unless tokenizer.ggml.add_bos_token says otherwise

  /// The parts of tokenizer.json that cut so. `space_first`: a text begins with a space, written or not.
  Json normalizer() const;
  Json pre_tokenizer(bool space_first) const;
};

/// Where several names mean the same, the one that is written comes first.
std::span<const WordSplit> gguf_word_splits();

/// The row that cuts as the parts of a byte-level tokenizer.json do, or nullptr. A normalizer that is missing there may
/// be in the row: programs that read GGUF files apply none.
const WordSplit* word_split_of(const Json& tokenizer);

/// The steps of a normalizer or pre-tokenizer of tokenizer.json, one after the other, without what changes no token.
std::vector<Json> tokenizer_steps(const Json& part);
/// Whether a part of tokenizer.json has these steps.
bool has_steps(const Json& part, const std::vector<Json>& steps);

}  // namespace keel
