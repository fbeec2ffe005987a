#pragma once

#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/model/network/model_config.h"
#include "libs/hftext/tokenizer/tokenizer.h"

/// Model shapes of the benchmarks: "3.2M" (workload against TRL), "135M" (SmolLM2), and "0.5B", "3B" and "7B" (Qwen2.5
/// without biases).
inline keel::ModelConfig bench_shape(const std::string& name) {
  if (name == "3.2M")
    return keel::model_config({.hidden_size = 256,
                               .layers = 4,
                               .heads = 8,
                               .kv_heads = 4,
                               .intermediate_size = 768,
                               .tie_embeddings = true,
                               .max_positions = 256},
                              54);
  if (name == "135M")
    return keel::model_config({.hidden_size = 576,
                               .layers = 30,
                               .heads = 9,
                               .kv_heads = 3,
                               .intermediate_size = 1536,
                               .tie_embeddings = true,
                               .max_positions = 256},
                              49152);
  if (name == "0.5B")
    return keel::model_config({.hidden_size = 896,
                               .layers = 24,
                               .heads = 14,
                               .kv_heads = 2,
                               .intermediate_size = 4864,
                               .tie_embeddings = true,
                               .max_positions = 4096},
                              151936);
  if (name == "3B")
    return keel::model_config({.hidden_size = 2048,
                               .layers = 36,
                               .heads = 16,
                               .kv_heads = 2,
                               .intermediate_size = 11008,
                               .tie_embeddings = true,
                               .max_positions = 4096},
                              151936);
  if (name == "7B")
    return keel::model_config({.hidden_size = 3584,
                               .layers = 28,
                               .heads = 28,
                               .kv_heads = 4,
                               .intermediate_size = 18944,
                               .max_positions = 4096},
                              152064);
  keel::fail(keel::ExitCode::kBadConfiguration, "shape ", name, " is unknown; known: 3.2M, 135M, 0.5B, 3B, 7B");
}

inline keel::Tokenizer bench_vocabulary(int64_t size) {
  std::vector<std::string> words{"<pad>", "<bos>", "<eos>"};
  while (static_cast<int64_t>(words.size()) < size) words.push_back("w" + std::to_string(words.size()));
  return keel::Tokenizer::word_level(words, {.pad = "<pad>", .bos = "<bos>", .eos = "<eos>"});
}
