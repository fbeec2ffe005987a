#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/core/json.h"

namespace keel::text {

/// Parsed tokenizer.json: large parts as plain lists, the rest as a tree. Memory is a small multiple of the file size.
struct TokenizerFile {
  Json tree;                                                // all but model.vocab and model.merges
  std::vector<std::pair<std::string, int64_t>> vocabulary;  // model.vocab, an object from token to id
  std::vector<std::pair<std::string, double>> pieces;       // model.vocab, an array of [piece, score]
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges, of pairs or of strings with a space
  bool has_vocabulary = false, has_pieces = false, has_merges = false;
};

/// `location` names the file in errors.
TokenizerFile parse_tokenizer_file(std::string_view bytes, const std::string& location);

}  // namespace keel::text
