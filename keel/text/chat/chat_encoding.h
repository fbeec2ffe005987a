#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "keel/text/chat/chat_template.h"
#include "keel/text/tokenizer/tokenizer.h"

namespace keel {

/// A prompt as text and as what the model is given.
struct EncodedPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// "2024-07-26" for a template that asks for the date; an Error (kBadConfiguration) that names the setting where it is
/// none.
std::tm date_of(const std::string& text, const std::string& setting);

/// Prompts to token ids. Special tokens spelled out by whoever wrote a message stay text: nobody can end a turn, or
/// begin one, by writing its token.
class PromptEncoder {
 public:
  PromptEncoder(Tokenizer tokenizer, ChatTemplates templates)
      : tokenizer_(std::move(tokenizer)), templates_(std::move(templates)) {}

  bool has_template() const { return !templates_.empty(); }

  /// A text, with what the tokenizer's post-processor adds, such as <bos>. With `parse_special` the special tokens that
  /// it spells out are those tokens, as in transformers' tokenizer(text).
  EncodedPrompt text(const std::string& text, bool parse_special = false) const;

  /// A conversation through the model's chat template, up to where the model is to go on. `now` is what a template that
  /// asks for the date is told.
  EncodedPrompt chat(const Json& messages, const std::tm& now) const;

 private:
  Tokenizer tokenizer_;
  ChatTemplates templates_;
};

}  // namespace keel
