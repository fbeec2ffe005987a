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

/// Byte-pair encoding: splits a piece into characters and merges pairs in the order they were learned.
class Bpe {
 public:
  /// Moves the vocabulary and the merges from `file`. With `pieces_are_bytes`, tokenize() receives raw bytes although
  /// the vocabulary is in GPT-2's byte alphabet.
  static Bpe from_file(const StrictObject& model, TokenizerFile& file, bool pieces_are_bytes);

  const TokenTable& tokens() const { return tokens_; }
  /// True if tokenize() expects raw bytes; false if the vocabulary needs the characters of the byte alphabet.
  bool takes_bytes() const { return takes_bytes_; }
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const;
  WordCache& cache() const { return *cache_; }

 private:
  void read_merges(const TokenizerFile& file, const StrictObject& model);
  void prepare_bytes();
  void add_characters(std::string_view piece, std::vector<int32_t>& ids) const;
  bool add_byte_tokens(std::string_view character, std::vector<int32_t>& ids) const;
  int32_t unknown_id() const;

  std::string location_;
  TokenTable tokens_;
  MergeTable merges_;
  std::optional<std::string> unknown_;
  bool fuse_unknown_ = false, ignore_merges_ = false, takes_bytes_ = false;
  std::string prefix_, suffix_;             // continuing_subword_prefix, end_of_word_suffix
  std::array<int32_t, 256> byte_ids_ = {};  // id of each byte's character, if takes_bytes_
  TokenTable tokens_by_bytes_;              // decoded tokens, if takes_bytes_ and ignore_merges_
  std::vector<int32_t> ids_by_bytes_;
  std::optional<std::array<int32_t, 256>> byte_fallback_ids_;  // ids of "<0x00>" to "<0xFF>", if byte_fallback
  std::shared_ptr<WordCache> cache_ = std::make_shared<WordCache>();
};

}  // namespace keel::text
