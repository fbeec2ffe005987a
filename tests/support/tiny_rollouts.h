#pragma once

#include <vector>

#include "keel/core/prompt.h"
#include "keel/train/update/policy_tokens.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Eleven tokens, the vocabulary size of tiny_config. The third is the stop token.
inline Tokenizer tiny_tokenizer() {
  return Tokenizer::word_level({"<pad>", "<bos>", "<eos>", "a", "b", "c", "d", "e", "f", "g", "h"},
                               {.pad = "<pad>", .bos = "<bos>", .eos = "<eos>"});
}

/// Prompts of different lengths whose ids are not their indices.
inline std::vector<Prompt> tiny_prompts() {
  std::vector<Prompt> prompts;
  uint64_t id = 40;
  for (const std::vector<int32_t>& tokens : std::vector<std::vector<int32_t>>{
           {1, 3, 4}, {1}, {1, 10, 9, 8, 7, 6, 5}, {1, 4, 4}, {1, 5, 3, 3, 6}, {1, 3, 4, 3, 4, 3, 4, 3, 4}, {1, 7}})
    prompts.push_back({.id = id += 3, .tokens = tokens, .text = "", .source = "test", .answer = {}});
  return prompts;
}

/// Converts rollouts to training sequences. The rollouts must outlive the result.
inline std::vector<TrainingSequence> training_sequences(const std::vector<Rollout>& rollouts) {
  std::vector<TrainingSequence> sequences;
  for (const Rollout& rollout : rollouts) sequences.push_back(training_sequence(rollout));
  return sequences;
}

}  // namespace keel
