#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/hftext/tokenizer/strict_object.h"
#include "libs/hftext/tokenizer/token_table.h"
#include "libs/hftext/tokenizer/tokenizer_file.h"
#include "libs/hftext/tokenizer/trie.h"

namespace keel::text {

/// SentencePiece's unigram model: of all ways to cut a text into pieces, the one with the highest sum of scores.
class Unigram {
 public:
  /// Takes the pieces out of `file`.
  static Unigram from_file(const Component& model, TokenizerFile& file);

  const TokenTable& tokens() const { return tokens_; }
  /// Appends the tokens of `text`.
  void tokenize(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Node {
    double score = 0;    // of the best way that ends here
    size_t start = 0;    // of the last piece of that way
    int32_t id = 0;      // of that piece
    bool found = false;  // some way ends here
  };
  std::vector<Node> best_ways(std::string_view text) const;
  void add_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  std::string place_;
  TokenTable tokens_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::optional<int32_t> unknown_id_;
  std::optional<std::array<int32_t, 256>> fallback_;
  Trie trie_;
};

}  // namespace keel::text
