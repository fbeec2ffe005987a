#include "libs/hftext/tokenizer/token_model.h"

#include "keel/core/error.h"
#include "libs/hftext/tokenizer/vocabulary.h"

namespace keel::text {

WordLevel WordLevel::from_file(const Component& model, TokenizerFile& file) {
  model.only({"unk_token"});
  WordLevel result;
  result.place_ = model.place();
  result.tokens_ = dense_table(file.vocabulary, model.place());
  if (model.has("unk_token")) result.unknown_id_ = result.tokens_.find(model.string("unk_token"));
  return result;
}

void WordLevel::tokenize(std::string_view piece, std::vector<int32_t>& ids) const {
  const int32_t known = tokens_.find(piece);
  const int32_t id = known == TokenTable::kNone ? unknown_id_ : known;
  if (id == TokenTable::kNone) {
    fail(ExitCode::kBadInput, place_, ": the word \"", shown_text(piece), "\" is not in the vocabulary of ",
         tokens_.size(),
         " tokens, which has no unknown token; use its words, or a model whose vocabulary has this one");
  }
  ids.push_back(id);
}

Model Model::from_file(TokenizerFile& file, bool pieces_are_bytes, const std::string& place) {
  const Component model(Component(file.tree, place).at("model"), place + ": model");
  // Files of 2020 have no type here; the merges tell.
  const bool old_bpe = !model.has("type") && file.has_merges && file.has_vocabulary;
  const std::string type = old_bpe ? "BPE" : model.has("type") ? model.type() : "";
  if (type == "BPE") return Model(Bpe::from_file(model, file, pieces_are_bytes));
  if (type == "WordLevel") return Model(WordLevel::from_file(model, file));
  if (type == "Unigram") return Model(Unigram::from_file(model, file));
  model.refuse_type("BPE, Unigram, WordLevel");
}

}  // namespace keel::text
