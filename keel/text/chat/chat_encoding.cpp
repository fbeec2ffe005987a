#include "keel/text/chat/chat_encoding.h"

#include <chrono>
#include <cstdio>

#include "keel/core/error.h"

namespace keel {
namespace {

std::string token_text(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? tokenizer.token(*id) : std::string();
}

}  // namespace

std::tm date_of(const std::string& text, const std::string& setting) {
  int year = 0, month = 0, day = 0, end = 0;
  const bool read = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!read || static_cast<size_t>(end) != text.size() || !date.ok())
    fail(ExitCode::kBadConfiguration, setting, " is \"", text, "\"; wanted a date as 2024-07-26");
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::sys_days{date});
  std::tm time{};
  gmtime_r(&seconds, &time);
  return time;
}

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
