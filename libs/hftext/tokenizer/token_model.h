#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libs/hftext/tokenizer/bpe.h"
#include "libs/hftext/tokenizer/strict_object.h"
#include "libs/hftext/tokenizer/token_table.h"
#include "libs/hftext/tokenizer/tokenizer_file.h"
#include "libs/hftext/tokenizer/unigram.h"

namespace keel::text {

/// One token per piece. A piece outside the vocabulary becomes the unknown token, or an Error if there is none.
class WordLevel {
 public:
  static WordLevel from_file(const StrictObject& model, TokenizerFile& file);
  const TokenTable& tokens() const { return tokens_; }
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  std::string location_;
  TokenTable tokens_;
  int32_t unknown_id_ = TokenTable::kNone;
};

/// The "model" of tokenizer.json: converts pieces of text to ids.
class Model {
 public:
  /// Moves the large lists from `file`. `pieces_are_bytes`: the pre-tokenizer ends with the byte alphabet, so Bpe may
  /// take raw bytes (takes_bytes()).
  static Model from_file(TokenizerFile& file, bool pieces_are_bytes, const std::string& location);

  const TokenTable& tokens() const {
    return std::visit([](const auto& model) -> const TokenTable& { return model.tokens(); }, model_);
  }
  bool takes_bytes() const {
    const auto* bpe = std::get_if<Bpe>(&model_);
    return bpe != nullptr && bpe->takes_bytes();
  }
  template <class Pieces>
  void tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const;

 private:
  explicit Model(std::variant<WordLevel, Bpe, Unigram> model) : model_(std::move(model)) {}
  std::variant<WordLevel, Bpe, Unigram> model_;
};

template <class Pieces>
void Model::tokenize(const Pieces& pieces, std::vector<int32_t>& ids) const {
  const auto* bpe = std::get_if<Bpe>(&model_);
  if (bpe == nullptr) {
    std::visit(
        [&](const auto& model) {
          for (const auto& piece : pieces) model.tokenize(piece.text, ids);
        },
        model_);
    return;
  }
  WordCache& cache = bpe->cache();
  const auto lock = cache.try_lock();
  for (const auto& piece : pieces) {
    if (lock && cache.get(piece.text, ids)) continue;
    const size_t before = ids.size();
    bpe->tokenize(piece.text, ids);
    if (lock) cache.put(piece.text, ids.data() + before, ids.size() - before);
  }
}

}  // namespace keel::text
