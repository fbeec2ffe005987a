#include "keel/text/chat/chat_encoding.h"

#include "keel/core/error.h"

namespace keel {
namespace {

std::string token_text(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? tokenizer.token(*id) : std::string();
}

}  // namespace

EncodedPrompt PromptEncoder::text(const std::string& text, bool parse_special) const {
  return {text, tokenizer_.encode(text, {.add_special_tokens = true, .parse_special = parse_special})};
}

EncodedPrompt PromptEncoder::chat(const Json& messages, const std::tm& now) const {
  if (templates_.empty()) fail(ExitCode::kBadInput, "the model has no chat template; give a plain text");
  const Json variables = {{"add_generation_prompt", true},
                          {"bos_token", token_text(tokenizer_, tokenizer_.bos_id())},
                          {"eos_token", token_text(tokenizer_, tokenizer_.eos_id())}};
  RenderedChat chat = templates_.choose(/*has_tools=*/false).render(messages, variables, {.now = now});
  std::vector<int32_t> tokens = tokenizer_.encode(chat.text, {.parse_special = true, .foreign = chat.foreign});
  return {std::move(chat.text), std::move(tokens)};
}

}  // namespace keel
