#pragma once

#include <string>
#include <vector>

#include "keel/model/causal_lm.h"
#include "keel/text/chat_template.h"
#include "keel/text/tokenizer.h"

namespace keel {

/// A model with everything it needs to talk.
struct LoadedModel {
  CausalLm model;
  Tokenizer tokenizer;
  ChatTemplates templates;
  std::vector<int32_t> stop_ids;  // tokens that end a completion
};

/// From a Hugging Face folder, a GGUF file, or `owner/name` in the local Hugging Face cache.
LoadedModel load_model(const std::string& name, at::Device device);

/// The token ids of a text: with what the tokenizer's post-processor adds, such as <bos>. Special tokens spelled out in
/// the text stay text.
std::vector<int32_t> encode_text(const LoadedModel& loaded, const std::string& text);

/// The token ids of a conversation through the model's chat template, up to where the model is to go on. Special tokens
/// spelled out in a message stay text: nobody can end a turn, or begin one, by writing its token.
std::vector<int32_t> encode_chat(const LoadedModel& loaded, const Json& messages);

}  // namespace keel
