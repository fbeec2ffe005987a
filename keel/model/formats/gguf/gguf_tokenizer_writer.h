#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/formats/gguf/gguf_writer.h"

namespace keel {

/// A tokenizer on its way into a GGUF file.
struct OutgoingTokenizer {
  Json tokenizer;                                           // tokenizer.json, without the next two
  std::vector<std::pair<std::string, int64_t>> vocabulary;  // model.vocab
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges
  int64_t embeddings = 0;                                   // ids up to there that have no token are filled up
  std::optional<int64_t> bos = {}, eos = {}, pad = {}, end_of_turn = {}, end_of_message = {};
  bool add_bos = false, add_eos = false;
  std::string chat_template = "";  // empty: none
};

/// Adds its keys: byte-level BPE as "gpt2" with the name of its pre-tokenizer, BPE with byte fallback as "llama".
/// Whatever would make other tokens of a text, and what has no name there, is an Error (kBadInput) that begins with
/// `place` and names it.
void tokenizer_to_gguf(const OutgoingTokenizer& outgoing, const std::string& place, GgufWriter& writer);

}  // namespace keel
