#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/formats/gguf/gguf_header.h"

namespace keel {

/// The tokenizer of a GGUF file, converted to the files of a Hugging Face folder.
struct GgufTokenizer {
  Json tokenizer;         // tokenizer.json
  Json tokenizer_config;  // tokenizer_config.json, with the chat template
  std::optional<int64_t> bos, eos, pad;
  std::vector<int64_t> stop_ids;  // eos, and end-of-turn and end-of-message if different
};

/// Supports byte-level BPE (tokenizer.ggml.model "gpt2") with the pre-tokenizers of llama and qwen models, and BPE with
/// byte fallback ("llama", from SentencePiece). For other tokenizers, and for lists of different lengths, fails
/// (kBadInput) and names the metadata key.
GgufTokenizer tokenizer_from_gguf(const GgufMetadata& metadata);

}  // namespace keel
