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

/// A prompt as text and as token ids.
struct EncodedPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// A prompt and the target tokens that follow it.
struct EncodedReply {
  EncodedPrompt prompt;
  std::vector<int32_t> tokens;
};

/// Parses a date such as "2024-07-26". Throws an Error (kBadConfiguration) that names `setting` if it is not a date.
std::tm parse_date(const std::string& text, const std::string& setting);

/// Variables of a chat template in addition to the messages and tools.
struct TemplateVariables {
  std::tm now;                   // for strftime_now()
  Json kwargs = Json::object();  // other variables, such as enable_thinking
};

/// Parses {"enable_thinking=false"} to {"enable_thinking": false}. Python's True, False and None are accepted; any
/// other value that is not JSON becomes a string. Throws an Error (kBadConfiguration) that names `setting` for anything
/// but name=value, for names such as messages, and for values such as "off".
Json parse_template_kwargs(const std::vector<std::string>& assignments, const std::string& setting);

/// True for a string that spells another type, such as "false" in quotes. Templates treat it as true.
bool is_quoted_literal(const Json& value);

/// Encodes prompts to token ids. Special tokens spelled out in a message stay text: it cannot begin or end a turn.
class PromptEncoder {
 public:
  PromptEncoder(Tokenizer tokenizer, ChatTemplates templates)
      : tokenizer_(std::move(tokenizer)), templates_(std::move(templates)) {}

  bool has_template() const { return !templates_.empty(); }
  /// True if a template of the model calls strftime_now().
  bool uses_date() const;

  /// Throws an Error (kBadConfiguration) that names `setting` if no template of the model reads one of these variables.
  void require_template_variables(const Json& kwargs, const std::string& setting) const;

  /// Describes the variables for the log: "enable_thinking=false, today is 2024-07-26" (the date only if a template
  /// reads it). Marks strings that spell another type. Empty if there are none.
  std::string describe(const TemplateVariables& variables) const;

  /// Encodes a text with the tokens that the post-processor adds, such as <bos>. With `parse_special`, special tokens
  /// spelled out in the text become those tokens, as in transformers' tokenizer(text).
  EncodedPrompt text(const std::string& text, bool parse_special = false) const;

  /// Encodes a conversation with add_generation_prompt. `tools` is a list of function descriptions, or null.
  EncodedPrompt chat(const Json& messages, const TemplateVariables& variables, const Json& tools = nullptr) const;

  /// The tokens of a whole conversation, without add_generation_prompt.
  std::vector<int32_t> full_conversation(const Json& messages, const TemplateVariables& variables,
                                         const Json& tools = nullptr) const;

  /// The prompt is chat() of the messages before `first`; the target tokens are what the template writes for the
  /// messages from `first` on. Throws an Error if the rendered prompt is not a prefix of the rendered conversation.
  EncodedReply reply(const Json& messages, size_t first, const TemplateVariables& variables,
                     const Json& tools = nullptr) const;

  /// Encodes plain texts instead of a conversation.
  EncodedReply reply(const std::string& prompt, const std::string& completion, bool parse_special) const;

 private:
  RenderedChat render(const Json& messages, const TemplateVariables& variables, const Json& tools,
                      bool add_generation_prompt) const;
  std::vector<int32_t> encode(const RenderedChat& chat) const;

  Tokenizer tokenizer_;
  ChatTemplates templates_;
};

}  // namespace keel
