#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/formats/gguf/gguf_writer.h"

namespace keel {

/// A tokenizer to export to a GGUF file.
struct ExportTokenizer {
  Json tokenizer;                                           // tokenizer.json, without the next two
  std::vector<std::pair<std::string, int64_t>> vocabulary;  // model.vocab
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges
  int64_t embeddings = 0;                                   // size of the embedding; ids without token are filled up
  std::optional<int64_t> bos = {}, eos = {}, pad = {}, end_of_turn = {}, end_of_message = {};
  bool add_bos = false, add_eos = false;
  std::string chat_template = "";  // empty: none
};

/// Adds the tokenizer keys: byte-level BPE as "gpt2" with the name of its pre-tokenizer, BPE with byte fallback as
/// "llama". Fails (kBadInput, starting with `location`) for features that GGUF cannot represent.
void tokenizer_to_gguf(const ExportTokenizer& exported, const std::string& location, GgufWriter& writer);

}  // namespace keel
