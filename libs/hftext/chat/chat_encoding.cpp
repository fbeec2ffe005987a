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

/// Returns the tokens of `whole` after `prompt`. If a token spans the boundary, as with a space at the end of the
/// prompt, it encodes the rest alone: the model continues from the prompt's own tokens.
std::vector<int32_t> tokens_after(const std::vector<int32_t>& prompt, const std::vector<int32_t>& whole,
                                  const std::function<std::vector<int32_t>()>& rest_alone) {
  if (whole.size() < prompt.size() || !std::equal(prompt.begin(), prompt.end(), whole.begin())) return rest_alone();
  return {whole.begin() + static_cast<std::ptrdiff_t>(prompt.size()), whole.end()};
}

/// YAML 1.1 readers parse these as booleans.
const std::set<std::string> kYamlBooleans = {"on", "off", "yes", "no",  "On", "Off",  "Yes",
                                             "No", "ON",  "OFF", "YES", "NO", "TRUE", "FALSE"};

/// Parses JSON or Python's True, False and None; anything else is a string.
Json parse_value(const std::string& value) {
  const std::string_view word = trimmed(value);
  if (word == "True" || word == "False") return word == "True";
  return word == "None" ? Json() : try_parse_json(value).value_or(Json(value));
}

bool is_identifier_char(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::tm parse_date(const std::string& text, const std::string& setting) {
  int year = 0, month = 0, day = 0, end = 0;
  const bool read = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!read || static_cast<size_t>(end) != text.size() || !date.ok())
    fail(ExitCode::kBadConfiguration, setting, " is \"", text, "\"; expected a date such as 2024-07-26");
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::sys_days{date});
  std::tm time{};
  gmtime_r(&seconds, &time);
  return time;
}

Json parse_template_kwargs(const std::vector<std::string>& assignments, const std::string& setting) {
  static const std::set<std::string> kReserved = {"messages", "tools", "add_generation_prompt"};
  Json kwargs = Json::object();
  for (const std::string& assignment : assignments) {
    const auto reject = [&](const auto&... parts) {
      fail(ExitCode::kBadConfiguration, setting, " has \"", assignment, "\"", parts...);
    };
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) reject("; expected name=value, such as enable_thinking=false");
    const std::string name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
    const std::string trimmed_value(trimmed(value));
    if (!std::ranges::all_of(name, is_identifier_char)) reject("; expected a variable name before =");
    if (kReserved.contains(name)) reject(", but ", name, " comes from the conversation; remove it");
    if (kwargs.contains(name)) reject(", but ", name, " is already set; remove one of them");
    if (kYamlBooleans.contains(trimmed_value))
      reject("; expected true or false, or \"", trimmed_value, "\" in quotes for the string");
    kwargs[name] = parse_value(value);
  }
  return kwargs;
}

bool is_quoted_literal(const Json& value) {
  if (!value.is_string()) return false;
  const std::string text(trimmed(value.get_ref<const std::string&>()));
  return kYamlBooleans.contains(text) || !parse_value(text).is_string() || text == "NULL" || text == "NONE";
}

bool PromptEncoder::uses_date() const {
  return std::ranges::any_of(templates_.all(), [](const auto& entry) { return entry.second.uses_date(); });
}

void PromptEncoder::require_template_variables(const Json& kwargs, const std::string& setting) const {
  const auto& templates = templates_.all();
  if (!kwargs.empty() && templates.empty())
    fail(ExitCode::kBadConfiguration, setting, " has ", kwargs.begin().key(),
         ", but the model has no chat template; remove it, or use a model that has one");
  for (const auto& [name, value] : kwargs.items())
    if (std::ranges::none_of(templates,
                             [&](const auto& entry) { return entry.second.variable_names().contains(name); }))
      fail(ExitCode::kBadConfiguration, setting, " has ", name,
           ", which the model's chat template does not read; remove it, or correct its name");
}

std::string PromptEncoder::describe(const TemplateVariables& variables) const {
  std::vector<std::string> parts;
  for (const auto& [name, value] : variables.kwargs.items())
    parts.push_back(
        name + "=" + value.dump() +
        (is_quoted_literal(value) ? " (a string, which counts as true; remove the quotes for the value)" : ""));
  if (uses_date()) {
    char date[16];
    std::strftime(date, sizeof(date), "%Y-%m-%d", &variables.now);
    parts.push_back("today is " + std::string(date));
  }
  return joined(parts);
}

EncodedPrompt PromptEncoder::text(const std::string& text, bool parse_special) const {
  return {text, tokenizer_.encode(text, {.add_special_tokens = true, .parse_special = parse_special})};
}

RenderedChat PromptEncoder::render(const Json& messages, const TemplateVariables& variables, const Json& tools,
                                   bool add_generation_prompt) const {
  if (templates_.empty()) fail(ExitCode::kBadInput, "the model has no chat template; use plain text prompts");
  Json inputs = {{"add_generation_prompt", add_generation_prompt},
                 {"bos_token", token_text(tokenizer_, tokenizer_.bos_id())},
                 {"eos_token", token_text(tokenizer_, tokenizer_.eos_id())}};
  inputs.update(variables.kwargs);  // as in transformers, they override the tokenizer's values
  if (!tools.is_null()) inputs["tools"] = tools;
  return templates_.choose(/*has_tools=*/!tools.is_null()).render(messages, inputs, {.now = variables.now});
}

std::vector<int32_t> PromptEncoder::encode(const RenderedChat& chat) const {
  return tokenizer_.encode(chat.text, {.parse_special = true, .untrusted = chat.untrusted});
}

EncodedPrompt PromptEncoder::chat(const Json& messages, const TemplateVariables& variables, const Json& tools) const {
  RenderedChat chat = render(messages, variables, tools, /*add_generation_prompt=*/true);
  std::vector<int32_t> tokens = encode(chat);
  return {std::move(chat.text), std::move(tokens)};
}

std::vector<int32_t> PromptEncoder::full_conversation(const Json& messages, const TemplateVariables& variables,
                                                      const Json& tools) const {
  return encode(render(messages, variables, tools, /*add_generation_prompt=*/false));
}

EncodedReply PromptEncoder::reply(const Json& messages, size_t first, const TemplateVariables& variables,
                                  const Json& tools) const {
  const Json before(Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(first)));
  EncodedReply result{.prompt = chat(before, variables, tools), .tokens = {}};
  const RenderedChat whole = render(messages, variables, tools, /*add_generation_prompt=*/false);
  const size_t begin = result.prompt.text.size();
  if (!whole.text.starts_with(result.prompt.text))
    fail(ExitCode::kBadInput,
         "with add_generation_prompt the chat template begins the assistant message differently, so ",
         "prompt and completion cannot be separated; give prompt and completion as plain texts, or train on all tokens "
         "(sft.loss_on=all)",
         variables.kwargs.empty() ? "" : ", or remove data.chat_template_kwargs");
  const ByteRanges untrusted = ranges_within(whole.untrusted, begin, whole.text.size());
  result.tokens = tokens_after(result.prompt.tokens, encode(whole), [&] {
    return tokenizer_.encode(std::string_view(whole.text).substr(begin),
                             {.parse_special = true, .untrusted = untrusted, .is_continuation = true});
  });
  return result;
}

EncodedReply PromptEncoder::reply(const std::string& prompt, const std::string& completion, bool parse_special) const {
  EncodedReply result{.prompt = text(prompt, parse_special), .tokens = {}};
  result.tokens = tokens_after(result.prompt.tokens, text(prompt + completion, parse_special).tokens, [&] {
    return tokenizer_.encode(completion, {.parse_special = parse_special, .is_continuation = true});
  });
  return result;
}

}  // namespace keel
