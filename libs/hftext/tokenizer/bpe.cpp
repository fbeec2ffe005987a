#include "libs/hftext/tokenizer/bpe.h"

#include <algorithm>
#include <utility>

#include "keel/core/error.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/byte_alphabet.h"
#include "libs/hftext/tokenizer/vocabulary.h"

namespace keel::text {

Bpe Bpe::from_file(const StrictObject& model, TokenizerFile& file, bool pieces_are_bytes) {
  model.allow_keys({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                    "byte_fallback", "ignore_merges"});
  if (model.has("dropout") && model.at("dropout") != Json(0.0)) {
    model.fail_value("dropout", "null: with dropout, encoding would be random");
  }
  Bpe bpe;
  bpe.location_ = model.location();
  bpe.tokens_ = dense_table(file.vocabulary, model.location());
  if (model.has("unk_token")) bpe.unknown_ = model.string("unk_token");
  if (model.has("continuing_subword_prefix")) bpe.prefix_ = model.string("continuing_subword_prefix");
  if (model.has("end_of_word_suffix")) bpe.suffix_ = model.string("end_of_word_suffix");
  for (const char c : bpe.prefix_) {
    if (static_cast<unsigned char>(c) >= 0x80) model.fail_value("continuing_subword_prefix", "ASCII");
  }
  bpe.fuse_unknown_ = model.boolean("fuse_unk", false);
  bpe.ignore_merges_ = model.boolean("ignore_merges", false);
  if (model.boolean("byte_fallback", false)) bpe.byte_fallback_ids_ = byte_fallback_ids(bpe.tokens_);
  if (!file.has_merges)
    fail(ExitCode::kBadInput, model.location(), ".merges is missing; a BPE model has an array of them");
  bpe.read_merges(file, model);
  if (pieces_are_bytes) bpe.prepare_bytes();
  return bpe;
}

void Bpe::read_merges(const TokenizerFile& file, const StrictObject& model) {
  merges_.reserve(file.merges.size());
  uint32_t rank = 0;
  std::string merged;
  for (const auto& [left, right] : file.merges) {
    if (right.size() < prefix_.size()) {
      fail(ExitCode::kBadInput, model.location(), ".merges[", rank, "]: \"", preview_text(right),
           "\" is shorter than the continuing_subword_prefix \"", preview_text(prefix_), "\"");
    }
    merged.assign(left).append(right, prefix_.size());
    const std::string_view tokens[] = {left, right, merged};
    int32_t ids[3];
    for (size_t i = 0; i < 3; ++i) {
      ids[i] = tokens_.find(tokens[i]);
      if (ids[i] != TokenTable::kNone) continue;
      fail(ExitCode::kBadInput, model.location(), ".merges[", rank, "] needs the token \"", preview_text(tokens[i]),
           "\", which is not in the vocabulary of ", tokens_.size(), " tokens; the file is damaged: get it again");
    }
    merges_.add(ids[0], ids[1], {rank++, ids[2]});
  }
}

/// Fast path for byte-level vocabularies: looks up bytes directly instead of converting a piece to the byte alphabet.
void Bpe::prepare_bytes() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = tokens_.find(byte_character(static_cast<unsigned char>(byte)));
  }
  const bool complete = std::find(byte_ids_.begin(), byte_ids_.end(), TokenTable::kNone) == byte_ids_.end();
  if (!complete || !prefix_.empty() || !suffix_.empty()) return;
  takes_bytes_ = true;
  if (!ignore_merges_) return;
  tokens_by_bytes_.reserve(static_cast<size_t>(tokens_.size()));
  for (int32_t id = 0; id < tokens_.size(); ++id) {
    std::optional<std::string> bytes = bytes_of_characters(tokens_[id]);
    if (bytes && tokens_by_bytes_.add(std::move(*bytes))) ids_by_bytes_.push_back(id);
  }
}

void Bpe::tokenize(std::string_view piece, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    const int32_t found = takes_bytes_ ? tokens_by_bytes_.find(piece) : tokens_.find(piece);
    if (found != TokenTable::kNone) {
      ids.push_back(takes_bytes_ ? ids_by_bytes_[static_cast<size_t>(found)] : found);
      return;
    }
  }
  static thread_local std::vector<int32_t> symbols;
  symbols.clear();
  if (takes_bytes_) {
    for (const char byte : piece) symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  } else {
    add_characters(piece, symbols);
  }
  merges_.apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

/// Emits an unknown token only before the next known character, not before byte-fallback tokens, as the package does.
void Bpe::add_characters(std::string_view piece, std::vector<int32_t>& ids) const {
  int32_t pending_unknown = TokenTable::kNone;
  std::string with_affixes;
  for (size_t at = 0; at < piece.size();) {
    const size_t size = code_point_at(piece, at).size;
    std::string_view character = piece.substr(at, size);
    const bool first = at == 0, last = at + size == piece.size();
    at += size;
    if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
      with_affixes.assign(first ? "" : prefix_).append(character).append(last ? suffix_ : "");
      character = with_affixes;
    }
    const int32_t id = tokens_.find(character);
    if (id != TokenTable::kNone) {
      if (pending_unknown != TokenTable::kNone) ids.push_back(std::exchange(pending_unknown, TokenTable::kNone));
      ids.push_back(id);
    } else if (!add_byte_tokens(character, ids) && unknown_) {
      if (pending_unknown != TokenTable::kNone && !fuse_unknown_) ids.push_back(pending_unknown);
      pending_unknown = unknown_id();
    }
  }
  if (pending_unknown != TokenTable::kNone) ids.push_back(pending_unknown);
}

bool Bpe::add_byte_tokens(std::string_view character, std::vector<int32_t>& ids) const {
  if (!byte_fallback_ids_) return false;
  const auto id_of = [&](char byte) { return (*byte_fallback_ids_)[static_cast<unsigned char>(byte)]; };
  for (const char byte : character) {
    if (id_of(byte) == TokenTable::kNone) return false;
  }
  for (const char byte : character) ids.push_back(id_of(byte));
  return true;
}

int32_t Bpe::unknown_id() const {
  const int32_t id = tokens_.find(*unknown_);
  if (id == TokenTable::kNone) {
    fail(ExitCode::kBadInput, location_, ": the text has a character that is not in the vocabulary of ", tokens_.size(),
         " tokens, and neither is the unk_token \"", preview_text(*unknown_), "\"; add one of them");
  }
  return id;
}

}  // namespace keel::text
