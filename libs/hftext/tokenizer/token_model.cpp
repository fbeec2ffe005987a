#include "libs/hftext/tokenizer/token_model.h"

#include "keel/core/error.h"
#include "libs/hftext/tokenizer/vocabulary.h"

namespace keel::text {

WordLevel WordLevel::from_file(const StrictObject& model, TokenizerFile& file) {
  model.allow_keys({"unk_token"});
  WordLevel result;
  result.location_ = model.location();
  result.tokens_ = dense_table(file.vocabulary, model.location());
  if (model.has("unk_token")) result.unknown_id_ = result.tokens_.find(model.string("unk_token"));
  return result;
}

void WordLevel::tokenize(std::string_view piece, std::vector<int32_t>& ids) const {
  const int32_t known = tokens_.find(piece);
  const int32_t id = known == TokenTable::kNone ? unknown_id_ : known;
  if (id == TokenTable::kNone) {
    fail(ExitCode::kBadInput, location_, ": the word \"", preview_text(piece), "\" is not in the vocabulary of ",
         tokens_.size(),
         " tokens, which has no unknown token; use other words, or a model whose vocabulary has this one");
  }
  ids.push_back(id);
}

Model Model::from_file(TokenizerFile& file, bool pieces_are_bytes, const std::string& location) {
  const StrictObject model(StrictObject(file.tree, location).at("model"), location + ": model");
  // Files from 2020 have no type; merges identify BPE.
  const bool old_bpe = !model.has("type") && file.has_merges && file.has_vocabulary;
  const std::string type = old_bpe ? "BPE" : model.has("type") ? model.type() : "";
  if (type == "BPE") return Model(Bpe::from_file(model, file, pieces_are_bytes));
  if (type == "WordLevel") return Model(WordLevel::from_file(model, file));
  if (type == "Unigram") return Model(Unigram::from_file(model, file));
  model.fail_unknown_type("BPE, Unigram, WordLevel");
}

}  // namespace keel::text
