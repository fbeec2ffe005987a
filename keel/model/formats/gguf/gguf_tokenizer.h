#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/formats/gguf/gguf_header.h"

namespace keel {

/// The tokenizer in a GGUF file's metadata, as the files of a Hugging Face folder.
struct GgufTokenizer {
  Json tokenizer;         // tokenizer.json
  Json tokenizer_config;  // tokenizer_config.json, with the chat template
  std::optional<int64_t> bos, eos, pad;
  std::vector<int64_t> ends;  // eos and, where they are other tokens, the ends of a turn and of a message
};

/// Knows byte-level BPE (tokenizer.ggml.model "gpt2") with the pre-tokenizers that llama and qwen models use, and BPE
/// with byte fallback ("llama", from SentencePiece). Everything else, and every list that does not fit the others, is
/// an Error (kBadInput) that names the key.
GgufTokenizer tokenizer_from_gguf(const GgufMetadata& metadata);

}  // namespace keel
