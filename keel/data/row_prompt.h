#pragma once

#include <string>

#include "keel/core/prompt.h"
#include "keel/data/data_options.h"
#include "keel/data/schema.h"
#include "libs/hftext/chat/chat_encoding.h"

namespace keel {

/// What the chat template is told, as section `data` says.
TemplateVariables words_of(const DataOptions& options);

/// "the chat template is told enable_thinking=false"; empty where it is told nothing.
std::string template_sentence(const PromptEncoder& encoder, const TemplateVariables& words);

/// Words of data.chat_template_kwargs that are texts and only spell a value, which a template takes for true.
std::vector<std::string> texts_for_values(const DataOptions& options);

/// Rows to what a model is given.
class RowPrompts {
 public:
  /// An Error (kBadConfiguration) where the options contradict the model or each other.
  /// `section` of the configuration names the files and their columns.
  RowPrompts(PromptEncoder encoder, const DataOptions& options, std::string section = "data");

  /// The row's prompt, rendered and encoded. A BadRow where the chat template or the tokenizer refuses it.
  Prompt prompt(Example example, uint64_t id) const;

  /// Whether the row goes to the model without the chat template that it has, and nobody has said that it should: a
  /// text that does not spell out its special tokens either.
  bool misses_template(const Example& example) const;

  /// Whether a prompt goes through the chat template; an Error where it must and may not, or cannot.
  bool is_chat(const Json& prompt, const std::string& place) const;

  /// A prompt as messages, with data.system_prompt where they have no system message.
  Json conversation(const Json& prompt) const;

  const PromptEncoder& encoder() const { return encoder_; }
  const TemplateVariables& words() const { return words_; }

  /// What becomes of prompts that are texts: "a text, as the user's message".
  std::string word_of_text() const;
  /// What the chat template is told; that it is not asked, where words are for it.
  std::string template_note(bool asked) const;

 private:
  bool texts_are_chat() const;

  PromptEncoder encoder_;
  std::string section_;
  std::string chat_, system_prompt_;
  TemplateVariables words_;
};

}  // namespace keel
