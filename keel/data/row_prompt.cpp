#include "keel/data/row_prompt.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

bool has_system_message(const Json& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const Json& message) { return message["role"] == "system"; });
}

}  // namespace

TemplateVariables template_variables(const DataOptions& options) {
  return {parse_date(kTemplateDate, "the date of chat templates"),
          parse_template_kwargs(options.chat_template_kwargs, "data.chat_template_kwargs")};
}

std::vector<std::string> quoted_literals(const DataOptions& options) {
  const Json kwargs = template_variables(options).kwargs;
  std::vector<std::string> texts;
  for (const auto& [name, value] : kwargs.items())
    if (is_quoted_literal(value)) texts.push_back(name + "=" + value.dump());
  return texts;
}

std::string template_variables_note(const PromptEncoder& encoder, const TemplateVariables& variables) {
  const std::string list = encoder.describe(variables);
  return list.empty() ? "" : "chat template variables: " + list;
}

RowPrompts::RowPrompts(PromptEncoder encoder, const DataOptions& options, std::string section)
    : encoder_(std::move(encoder)),
      section_(std::move(section)),
      chat_(options.chat),
      system_prompt_(options.system_prompt),
      variables_(template_variables(options)) {
  if (chat_ == "never" && !system_prompt_.empty())
    fail(ExitCode::kBadConfiguration,
         "data.system_prompt needs a chat template, but data.chat is never. Fix: remove one of them");
  if (chat_ == "never" && !variables_.kwargs.empty())
    fail(ExitCode::kBadConfiguration,
         "data.chat_template_kwargs needs a chat template, but data.chat is never. Fix: remove one of them");
  encoder_.require_template_variables(variables_.kwargs, "data.chat_template_kwargs");
}

bool RowPrompts::is_chat(const Json& prompt, const std::string& place) const {
  if (prompt.is_array() && chat_ == "never")
    fail(ExitCode::kBadConfiguration, place, ": the prompt is a conversation, but data.chat is never. Fix: set ",
         "data.chat to auto, or ", section_, ".prompt_key to a column of texts");
  if (!prompt.is_array() && !texts_are_chat()) return false;
  if (!encoder_.has_template())
    fail(ExitCode::kBadConfiguration, place, ": the prompt needs a chat template, but the model has ",
         "none. Fix: use a model with a chat template, or texts with data.chat=never");
  return true;
}

Json RowPrompts::conversation(const Json& prompt) const {
  Json messages = prompt.is_array() ? prompt : Json::array({{{"role", "user"}, {"content", prompt}}});
  if (!system_prompt_.empty() && !has_system_message(messages))
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", system_prompt_}});
  return messages;
}

bool RowPrompts::texts_are_chat() const { return chat_ == "always" || (chat_ == "auto" && !system_prompt_.empty()); }

bool RowPrompts::misses_template(const Example& example) const {
  if (chat_ != "auto" || !encoder_.has_template() || !example.prompt.is_string() || texts_are_chat()) return false;
  const auto text = example.prompt.get<std::string>();
  return encoder_.text(text, /*parse_special=*/true).tokens == encoder_.text(text).tokens;
}

std::string RowPrompts::text_description() const {
  if (texts_are_chat()) return "a text, as the user's message";
  return encoder_.has_template() ? "a text, given as it is" : "a text";
}

std::string RowPrompts::template_note(bool uses_template) const {
  if (uses_template) return template_variables_note(encoder_, variables_);
  return variables_.kwargs.empty()
             ? ""
             : "data.chat_template_kwargs has no effect: no file's first row goes through the chat template";
}

Prompt RowPrompts::prompt(Example example, uint64_t id) const {
  Prompt prompt;
  prompt.id = id;
  prompt.source = std::move(example.source);
  prompt.answer = std::move(example.answer);
  prompt.extra = std::move(example.extra);
  const bool as_chat = is_chat(example.prompt, example.place);
  if (as_chat) {
    const bool is_text = example.prompt.is_string();
    if (is_text) prompt.row_text = example.prompt;
    example.prompt = conversation(example.prompt);
    if (!is_text) prompt.messages = example.prompt;
  }
  try {
    EncodedPrompt encoded = as_chat ? encoder_.chat(example.prompt, variables_)
                                    : encoder_.text(example.prompt.get<std::string>(), /*parse_special=*/true);
    prompt.text = std::move(encoded.text);
    prompt.tokens = std::move(encoded.tokens);
  } catch (const Error& error) {
    throw BadRow(example.place, error.what());
  }
  if (prompt.tokens.empty()) throw BadRow(example.place, "the prompt has no tokens");
  return prompt;
}

}  // namespace keel
