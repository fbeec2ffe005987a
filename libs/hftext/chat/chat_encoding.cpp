#include "libs/hftext/chat/chat_encoding.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <functional>
#include <set>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

std::string token_text(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? tokenizer.token(*id) : std::string();
}

/// What of a whole's tokens comes behind a prompt's; where the two run into each other, as of a space that ends the
/// prompt, what the rest has by itself: the model goes on from the prompt's own tokens.
std::vector<int32_t> tokens_behind(const std::vector<int32_t>& prompt, const std::vector<int32_t>& whole,
                                   const std::function<std::vector<int32_t>()>& rest_alone) {
  if (whole.size() < prompt.size() || !std::equal(prompt.begin(), prompt.end(), whole.begin())) return rest_alone();
  return {whole.begin() + static_cast<std::ptrdiff_t>(prompt.size()), whole.end()};
}

/// Other readers of YAML take these for true or false.
const std::set<std::string> kSwitches = {"on", "off", "yes", "no",  "On", "Off",  "Yes",
                                         "No", "ON",  "OFF", "YES", "NO", "TRUE", "FALSE"};

/// JSON, Python's True, False and None, or else a text.
Json value_of_word(const std::string& value) {
  const std::string_view word = trimmed(value);
  if (word == "True" || word == "False") return word == "True";
  return word == "None" ? Json() : try_parse_json(value).value_or(Json(value));
}

bool is_part_of_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::tm parse_date(const std::string& text, const std::string& setting) {
  int year = 0, month = 0, day = 0, end = 0;
  const bool read = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!read || static_cast<size_t>(end) != text.size() || !date.ok())
    fail(ExitCode::kBadConfiguration, setting, " is \"", text, "\"; expected a date as 2024-07-26");
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::sys_days{date});
  std::tm time{};
  gmtime_r(&seconds, &time);
  return time;
}

Json parse_template_kwargs(const std::vector<std::string>& assignments, const std::string& setting) {
  static const std::set<std::string> kGiven = {"messages", "tools", "add_generation_prompt"};
  Json words = Json::object();
  for (const std::string& assignment : assignments) {
    const auto refuse = [&](const auto&... parts) {
      fail(ExitCode::kBadConfiguration, setting, " has \"", assignment, "\"", parts...);
    };
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) refuse("; expected name=value, as enable_thinking=false");
    const std::string name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
    const std::string word(trimmed(value));
    if (!std::ranges::all_of(name, is_part_of_name)) refuse("; expected the name of a variable before =");
    if (kGiven.contains(name)) refuse(", and ", name, " is what the conversation gives; remove it");
    if (words.contains(name)) refuse(", and ", name, " is there already; remove one of them");
    if (kSwitches.contains(word)) refuse("; expected true or false, or \"", word, "\" in quotes for that text");
    words[name] = value_of_word(value);
  }
  return words;
}

bool is_quoted_literal(const Json& word) {
  if (!word.is_string()) return false;
  const std::string text(trimmed(word.get_ref<const std::string&>()));
  return kSwitches.contains(text) || !value_of_word(text).is_string() || text == "NULL" || text == "NONE";
}

bool PromptEncoder::uses_date() const {
  return std::ranges::any_of(templates_.all(), [](const auto& one) { return one.second.uses_date(); });
}

void PromptEncoder::require_template_variables(const Json& words, const std::string& setting) const {
  const auto& templates = templates_.all();
  if (!words.empty() && templates.empty())
    fail(ExitCode::kBadConfiguration, setting, " has ", words.begin().key(),
         ", which is for a chat template, and the model has none; remove it, or take a model that has one");
  for (const auto& [name, value] : words.items())
    if (std::ranges::none_of(templates, [&](const auto& one) { return one.second.variable_names().contains(name); }))
      fail(ExitCode::kBadConfiguration, setting, " has ", name,
           ", of which the model's chat template does not speak, so ",
           "that it would change nothing; remove it, or mend its name");
}

std::string PromptEncoder::describe(const TemplateVariables& words) const {
  std::vector<std::string> parts;
  for (const auto& [name, value] : words.kwargs.items())
    parts.push_back(name + "=" + value.dump() +
                    (is_quoted_literal(value) ? " (a text, which counts as true; the value has no quotes)" : ""));
  if (uses_date()) {
    char date[16];
    std::strftime(date, sizeof(date), "%Y-%m-%d", &words.now);
    parts.push_back("today is " + std::string(date));
  }
  return joined(parts);
}

EncodedPrompt PromptEncoder::text(const std::string& text, bool parse_special) const {
  return {text, tokenizer_.encode(text, {.add_special_tokens = true, .parse_special = parse_special})};
}

RenderedChat PromptEncoder::render(const Json& messages, const TemplateVariables& words, const Json& tools,
                                   bool add_generation_prompt) const {
  if (templates_.empty()) fail(ExitCode::kBadInput, "the model has no chat template; give a plain text");
  Json variables = {{"add_generation_prompt", add_generation_prompt},
                    {"bos_token", token_text(tokenizer_, tokenizer_.bos_id())},
                    {"eos_token", token_text(tokenizer_, tokenizer_.eos_id())}};
  variables.update(words.kwargs);  // as in transformers, where they win over the tokenizer's own
  if (!tools.is_null()) variables["tools"] = tools;
  return templates_.choose(/*has_tools=*/!tools.is_null()).render(messages, variables, {.now = words.now});
}

std::vector<int32_t> PromptEncoder::encode(const RenderedChat& chat) const {
  return tokenizer_.encode(chat.text, {.parse_special = true, .untrusted = chat.untrusted});
}

EncodedPrompt PromptEncoder::chat(const Json& messages, const TemplateVariables& words, const Json& tools) const {
  RenderedChat chat = render(messages, words, tools, /*add_generation_prompt=*/true);
  std::vector<int32_t> tokens = encode(chat);
  return {std::move(chat.text), std::move(tokens)};
}

std::vector<int32_t> PromptEncoder::full_conversation(const Json& messages, const TemplateVariables& words,
                                                      const Json& tools) const {
  return encode(render(messages, words, tools, /*add_generation_prompt=*/false));
}

EncodedReply PromptEncoder::reply(const Json& messages, size_t first, const TemplateVariables& words,
                                  const Json& tools) const {
  const Json before(Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(first)));
  EncodedReply result{.prompt = chat(before, words, tools), .tokens = {}};
  const RenderedChat whole = render(messages, words, tools, /*add_generation_prompt=*/false);
  const size_t begin = result.prompt.text.size();
  if (!whole.text.starts_with(result.prompt.text))
    fail(ExitCode::kBadInput, "the chat template begins what the assistant says otherwise than what it has the model ",
         "go on from (add_generation_prompt), so that what the model is to say cannot be told from what it is given; ",
         "write prompt and completion as texts, or learn from all tokens (sft.loss_on=all)",
         words.kwargs.empty() ? "" : ", or leave out data.chat_template_kwargs, if it writes them for the model alone");
  const ByteRanges untrusted = ranges_within(whole.untrusted, begin, whole.text.size());
  result.tokens = tokens_behind(result.prompt.tokens, encode(whole), [&] {
    return tokenizer_.encode(std::string_view(whole.text).substr(begin),
                             {.parse_special = true, .untrusted = untrusted, .is_continuation = true});
  });
  return result;
}

EncodedReply PromptEncoder::reply(const std::string& prompt, const std::string& completion, bool parse_special) const {
  EncodedReply result{.prompt = text(prompt, parse_special), .tokens = {}};
  result.tokens = tokens_behind(result.prompt.tokens, text(prompt + completion, parse_special).tokens, [&] {
    return tokenizer_.encode(completion, {.parse_special = parse_special, .is_continuation = true});
  });
  return result;
}

}  // namespace keel
