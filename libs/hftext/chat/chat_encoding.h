#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/chat/chat_template.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// A prompt as text and as what the model is given.
struct EncodedPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// A prompt, as it is given to the model, and the tokens that are to come behind it.
struct EncodedReply {
  EncodedPrompt prompt;
  std::vector<int32_t> tokens;
};

/// "2024-07-26" for a template that asks for the date; an Error (kBadConfiguration) that names the setting where it is
/// none.
std::tm parse_date(const std::string& text, const std::string& setting);

/// What a template is told beside the conversation and its tools.
struct TemplateVariables {
  std::tm now;                   // for one that asks for the date
  Json kwargs = Json::object();  // what its author lets a user choose: enable_thinking
};

/// {"enable_thinking": false} of {"enable_thinking=false"}; Python's False is false, and another value that is no JSON
/// a text, unless it is a switch such as off. An Error
/// (kBadConfiguration) that names the setting where it is no name=value, or a name that the conversation gives.
Json parse_template_kwargs(const std::vector<std::string>& assignments, const std::string& setting);

/// Whether a word is a text, as "false" in quotes, that spells a value: a template takes it for true, as any text.
bool is_quoted_literal(const Json& word);

/// Prompts to token ids. Special tokens spelled out by whoever wrote a message stay text: nobody can end a turn, or
/// begin one, by writing its token.
class PromptEncoder {
 public:
  PromptEncoder(Tokenizer tokenizer, ChatTemplates templates)
      : tokenizer_(std::move(tokenizer)), templates_(std::move(templates)) {}

  bool has_template() const { return !templates_.empty(); }
  /// Whether a template of the model asks what day it is.
  bool uses_date() const;

  /// An Error (kBadConfiguration) that names the setting where no template of the model speaks of one of these words,
  /// so that it would change nothing.
  void require_template_variables(const Json& words, const std::string& setting) const;

  /// What the templates are told beside the conversation: "enable_thinking=false, today is 2024-07-26" where they ask
  /// for the date; empty: nothing. A text that spells a value is told to be one.
  std::string describe(const TemplateVariables& words) const;

  /// A text, with what the tokenizer's post-processor adds, such as <bos>. With `parse_special` the special tokens that
  /// it spells out are those tokens, as in transformers' tokenizer(text).
  EncodedPrompt text(const std::string& text, bool parse_special = false) const;

  /// A conversation through the model's chat template, up to where the model is to go on. `tools` is what it is told of
  /// functions that may be called: a list, or null.
  EncodedPrompt chat(const Json& messages, const TemplateVariables& words, const Json& tools = nullptr) const;

  /// A conversation as it stands, to its end.
  std::vector<int32_t> full_conversation(const Json& messages, const TemplateVariables& words,
                                         const Json& tools = nullptr) const;

  /// What the template writes for the messages from `first` on, the assistant's, behind chat() of those before it. An
  /// Error where it does not begin that message as it begins what the model is to say.
  EncodedReply reply(const Json& messages, size_t first, const TemplateVariables& words,
                     const Json& tools = nullptr) const;

  /// The same of two texts.
  EncodedReply reply(const std::string& prompt, const std::string& completion, bool parse_special) const;

 private:
  RenderedChat render(const Json& messages, const TemplateVariables& words, const Json& tools,
                      bool add_generation_prompt) const;
  std::vector<int32_t> encode(const RenderedChat& chat) const;

  Tokenizer tokenizer_;
  ChatTemplates templates_;
};

}  // namespace keel
