#pragma once

#include <string>

#include "keel/core/prompt.h"
#include "keel/data/data_options.h"
#include "keel/data/schema.h"
#include "libs/hftext/chat/chat_encoding.h"

namespace keel {

/// The variables of the chat template from section `data`.
TemplateVariables template_variables(const DataOptions& options);

/// A note such as "chat template variables: enable_thinking=false"; empty without variables.
std::string template_variables_note(const PromptEncoder& encoder, const TemplateVariables& variables);

/// Settings of data.chat_template_kwargs that are quoted literals such as "false": a template treats the text as true.
std::vector<std::string> quoted_literals(const DataOptions& options);

/// Renders and encodes rows as prompts.
class RowPrompts {
 public:
  /// Options that contradict the model or each other are an Error (kBadConfiguration). `section` of the configuration
  /// names the files and their columns.
  RowPrompts(PromptEncoder encoder, const DataOptions& options, std::string section = "data");

  /// The row's prompt, rendered and encoded. Throws BadRow if the chat template or the tokenizer fails.
  Prompt prompt(Example example, uint64_t id) const;

  /// Returns whether a text bypasses the model's chat template by default (data.chat=auto) although it contains no
  /// special tokens: probably a mistake of the user.
  bool misses_template(const Example& example) const;

  /// Returns whether a prompt goes through the chat template. A conversation that cannot is an Error.
  bool is_chat(const Json& prompt, const std::string& place) const;

  /// The prompt as messages, with data.system_prompt if there is no system message.
  Json conversation(const Json& prompt) const;

  const PromptEncoder& encoder() const { return encoder_; }
  const TemplateVariables& variables() const { return variables_; }

  /// How text prompts are used: "a text, as the user's message".
  std::string text_description() const;
  /// A note on the template's variables, or that they have no effect because no prompt uses the template.
  std::string template_note(bool uses_template) const;

 private:
  bool texts_are_chat() const;

  PromptEncoder encoder_;
  std::string section_;
  std::string chat_, system_prompt_;
  TemplateVariables variables_;
};

}  // namespace keel
