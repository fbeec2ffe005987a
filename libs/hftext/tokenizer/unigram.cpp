#include "libs/hftext/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "keel/core/error.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/vocabulary.h"

namespace keel::text {
namespace {

constexpr double kUnknownPenalty = 10;  // subtracted from the lowest score, as in SentencePiece

}  // namespace

Unigram Unigram::from_file(const StrictObject& model, TokenizerFile& file) {
  model.allow_keys({"unk_id", "byte_fallback"});
  if (file.pieces.empty() || file.pieces.size() > INT32_MAX / 2) {
    fail(ExitCode::kBadInput, model.location(), ".vocab has ", file.pieces.size(),
         " pieces; it must be a non-empty array of [piece, score]");
  }
  Unigram unigram;
  unigram.location_ = model.location();
  unigram.tokens_.reserve(file.pieces.size());
  double lowest = std::numeric_limits<double>::infinity();
  for (auto& [piece, score] : file.pieces) {
    const int32_t id = unigram.tokens_.size();
    if (piece.size() > Trie::kMaxKey) {
      fail(ExitCode::kBadInput, model.location(), ".vocab[", id, "]: the piece \"", preview_text(piece), "\" has ",
           piece.size(), " bytes; at most ", Trie::kMaxKey, " are allowed. Remove it, or use another model");
    }
    if (!piece.empty()) unigram.trie_.insert(piece, id);
    const std::string piece_preview = preview_text(piece);
    if (!unigram.tokens_.add(std::move(piece))) {
      fail(ExitCode::kBadInput, model.location(), ".vocab[", id, "]: the piece \"", piece_preview, "\" occurs twice");
    }
    unigram.scores_.push_back(score);
    lowest = std::min(lowest, score);
  }
  unigram.unknown_score_ = lowest - kUnknownPenalty;
  if (model.has("unk_id"))
    unigram.unknown_id_ = static_cast<int32_t>(model.integer("unk_id", 0, unigram.tokens_.size() - 1));
  if (model.boolean("byte_fallback", false)) unigram.byte_fallback_ids_ = byte_fallback_ids(unigram.tokens_);
  return unigram;
}

/// Viterbi search with one node per byte; segmentations end only at character boundaries.
std::vector<Unigram::Node> Unigram::best_segmentation(std::string_view text) const {
  std::vector<Node> nodes(text.size() + 1);
  const auto offer = [&](size_t start, size_t end, int32_t id, double score) {
    Node& node = nodes[end];
    const double total = nodes[start].score + score;
    if (!node.found || total > node.score) node = {total, start, id, true};
  };
  for (size_t start = 0; start < text.size();) {
    const size_t size = code_point_at(text, start).size;
    bool character_is_piece = false;
    uint32_t trie_node = Trie::kRoot;
    for (size_t end = start; end < text.size();) {
      trie_node = trie_.next(trie_node, static_cast<unsigned char>(text[end++]));
      if (trie_node == Trie::kNoNode) break;
      const int32_t id = trie_.value(trie_node);
      if (id == Trie::kNoValue) continue;
      offer(start, end, id, scores_[static_cast<size_t>(id)]);
      character_is_piece = character_is_piece || end - start == size;
    }
    if (!character_is_piece) {
      if (!unknown_id_) {
        fail(ExitCode::kBadInput, location_, ": the character \"", text.substr(start, size),
             "\" is not in the vocabulary of ", tokens_.size(),
             " tokens, and unk_id is not set; remove the character, or set unk_id");
      }
      offer(start, start + size, *unknown_id_, unknown_score_);
    }
    start += size;
  }
  return nodes;
}

void Unigram::tokenize(std::string_view text, std::vector<int32_t>& ids) const {
  const std::vector<Node> nodes = best_segmentation(text);
  // Walks backwards and merges adjacent unknown pieces.
  std::vector<std::pair<size_t, size_t>> pieces;
  bool previous_unknown = false;
  for (size_t end = text.size(); end > 0; end = nodes[end].start) {
    const bool unknown = unknown_id_ && nodes[end].id == *unknown_id_;
    if (unknown && previous_unknown) {
      pieces.back().first = nodes[end].start;
    } else {
      pieces.emplace_back(nodes[end].start, end);
    }
    previous_unknown = unknown;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    const std::string_view part = text.substr(piece->first, piece->second - piece->first);
    const int32_t id = tokens_.find(part);
    if (id != TokenTable::kNone) {
      ids.push_back(id);
    } else {
      add_unknown(part, ids);
    }
  }
}

void Unigram::add_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  const auto id_of = [&](char byte) { return (*byte_fallback_ids_)[static_cast<unsigned char>(byte)]; };
  const bool has_byte_tokens =
      byte_fallback_ids_ && std::all_of(text.begin(), text.end(), [&](char b) { return id_of(b) >= 0; });
  if (!has_byte_tokens) return ids.push_back(*unknown_id_);
  for (const char byte : text) ids.push_back(id_of(byte));
}

}  // namespace keel::text
