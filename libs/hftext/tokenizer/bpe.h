#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/hftext/tokenizer/merge_table.h"
#include "libs/hftext/tokenizer/strict_object.h"
#include "libs/hftext/tokenizer/token_table.h"
#include "libs/hftext/tokenizer/tokenizer_file.h"
#include "libs/hftext/tokenizer/word_cache.h"

namespace keel::text {

/// Byte-pair encoding: a piece starts as its characters, and pairs are merged in the order they were learned.
class Bpe {
 public:
  /// Takes the vocabulary and the merges out of `file`. With `pieces_are_bytes` the pieces given to tokenize() are
  /// bytes where the vocabulary writes characters of GPT-2's alphabet.
  static Bpe from_file(const Component& model, TokenizerFile& file, bool pieces_are_bytes);

  const TokenTable& tokens() const { return tokens_; }
  /// Whether the pieces must be bytes; not when the vocabulary has oddities that need the characters themselves.
  bool wants_bytes() const { return wants_bytes_; }
  /// Appends the tokens of each piece.
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const;
  WordCache& cache() const { return *cache_; }

 private:
  void read_merges(const TokenizerFile& file, const Component& model);
  void prepare_bytes();
  void add_characters(std::string_view piece, std::vector<int32_t>& ids) const;
  bool add_byte_tokens(std::string_view character, std::vector<int32_t>& ids) const;
  int32_t unknown_id() const;

  std::string place_;
  TokenTable tokens_;
  MergeTable merges_;
  std::optional<std::string> unknown_;
  bool fuse_unknown_ = false, ignore_merges_ = false, wants_bytes_ = false;
  std::string prefix_, suffix_;             // of characters that continue, end a piece
  std::array<int32_t, 256> byte_ids_ = {};  // of the character of each byte, when wants_bytes_
  TokenTable byte_words_;                   // tokens as the bytes they stand for, when wants_bytes_ and ignore_merges_
  std::vector<int32_t> byte_word_ids_;
  std::optional<std::array<int32_t, 256>> fallback_;  // of "<0x00>" to "<0xFF>", when byte_fallback
  std::shared_ptr<WordCache> cache_ = std::make_shared<WordCache>();
};

}  // namespace keel::text
