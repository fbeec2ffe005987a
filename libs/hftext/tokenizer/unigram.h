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

/// SentencePiece's unigram model: the segmentation of a text with the highest sum of scores.
class Unigram {
 public:
  static Unigram from_file(const StrictObject& model, TokenizerFile& file);

  const TokenTable& tokens() const { return tokens_; }
  void tokenize(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  struct Node {
    double score = 0;    // of the best segmentation that ends here
    size_t start = 0;    // of its last piece
    int32_t id = 0;      // of its last piece
    bool found = false;  // a segmentation ends here
  };
  std::vector<Node> best_segmentation(std::string_view text) const;
  void add_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  std::string location_;
  TokenTable tokens_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::optional<int32_t> unknown_id_;
  std::optional<std::array<int32_t, 256>> byte_fallback_ids_;
  Trie trie_;
};

}  // namespace keel::text
