#include "keel/data/supervised_rows.h"

#include <algorithm>
#include <optional>
#include <set>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

void append(SupervisedSequence& sequence, std::span<const int32_t> tokens, bool trained) {
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  sequence.trained.resize(sequence.tokens.size(), trained ? 1 : 0);
}

SupervisedSequence train_all(std::vector<int32_t> tokens) {
  SupervisedSequence sequence{.tokens = std::move(tokens), .trained = {}};
  sequence.trained.resize(sequence.tokens.size(), 1);
  if (!sequence.trained.empty()) sequence.trained.front() = 0;
  return sequence;
}

bool starts_with(const std::vector<int32_t>& tokens, const std::vector<int32_t>& prefix) {
  return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

bool is_assistant(const Json& message) { return message["role"] == "assistant"; }

/// Returns whether a message has a loss, by its own field `weight` (OpenAI files) or `loss`; none without these fields.
std::optional<bool> loss_mark(const Json& message, const std::string& name, const std::string& place) {
  std::optional<bool> has_loss;
  for (const char* mark : {"weight", "loss"}) {
    const auto field = message.find(mark);
    if (field == message.end()) continue;
    if (*field != 0 && *field != 1 && !field->is_boolean())
      throw BadRow(place, name + " has the " + mark + " " + field->dump() +
                              "; expected 1 or true (loss), or 0 or false (no loss)");
    const bool value = field->is_boolean() ? field->get<bool>() : *field == 1;
    if (has_loss && *has_loss != value)
      throw BadRow(place, name + " has a weight and a loss that contradict each other");
    has_loss = value;
  }
  return has_loss;
}

/// The distinct roles of the messages from `first` on.
std::string list_roles(const Json& messages, size_t first) {
  std::set<std::string> roles;
  for (size_t i = first; i < messages.size(); ++i) roles.insert(printable(messages[i]["role"].get<std::string>()));
  return joined(std::vector<std::string>(roles.begin(), roles.end()));
}

}  // namespace

int64_t SupervisedSequence::trained_count() const { return std::count(trained.begin(), trained.end(), 1); }

size_t SupervisedRow::max_length() const {
  size_t length = 0;
  for (const SupervisedSequence& sequence : sequences) length = std::max(length, sequence.tokens.size());
  return length;
}

bool SupervisedRows::is_stop(int32_t token) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
}

SupervisedRow SupervisedRows::row(const Example& example) const {
  const bool prompt_only = example.answer.is_null();
  try {
    if (prompt_only && example.prompt.is_string()) return {{encode_text(example)}};
    const bool as_chat = example.answer.is_array() ? prompts_.is_chat(example.answer, example.place)
                                                   : prompts_.is_chat(example.prompt, example.place);
    if (!as_chat) return {{encode_text_pair(example)}};
    Json messages = prompts_.conversation(example.prompt);
    const size_t from_row = example.prompt.is_array() ? example.prompt.size() : 1, added = messages.size() - from_row;
    const size_t first = prompt_only ? 0 : messages.size();  // first message with a loss
    if (example.answer.is_array())
      messages.insert(messages.end(), example.answer.begin(), example.answer.end());
    else if (!prompt_only)
      messages.push_back({{"role", "assistant"}, {"content", example.answer}});
    require_rendered(messages, example);
    check_loss_marks(messages, first, added, example.place);
    if (loss_on_ == LossOn::kAssistant) return {encode_turns(messages, first, added, example)};
    if (loss_on_ == LossOn::kCompletion && !prompt_only) return {{encode_completion(messages, first, example)}};
    return {{encode_conversation(messages, example)}};
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadConfiguration) throw;  // every row has this error
    throw BadRow(example.place, error.what());
  }
}

/// A plain text bypasses the template and ends with the EOS token.
SupervisedSequence SupervisedRows::encode_text(const Example& example) const {
  if (prompts_.is_chat(example.prompt, example.place))
    fail(ExitCode::kBadConfiguration, example.place, ": the row is a plain text, but data.chat or ",
         "data.system_prompt requires the chat template. Fix: remove that, or give messages, or prompt and completion");
  std::vector<int32_t> tokens =
      prompts_.encoder().text(example.prompt.get<std::string>(), /*parse_special=*/true).tokens;
  if (tokens.empty()) throw BadRow(example.place, "the text has no tokens");
  if (tokens.back() != stop_ids_.front()) tokens.push_back(stop_ids_.front());
  return train_all(std::move(tokens));
}

SupervisedSequence SupervisedRows::encode_text_pair(const Example& example) const {
  EncodedReply reply = prompts_.encoder().reply(example.prompt.get<std::string>(), example.answer.get<std::string>(),
                                                /*parse_special=*/true);
  if (reply.prompt.tokens.empty()) throw BadRow(example.place, "the prompt has no tokens");
  if (reply.tokens.empty()) throw BadRow(example.place, "the completion has no tokens");
  if (!is_stop(reply.tokens.back())) reply.tokens.push_back(stop_ids_.front());
  SupervisedSequence sequence;
  append(sequence, reply.prompt.tokens, false);
  append(sequence, reply.tokens, true);
  return loss_on_ == LossOn::kAll ? train_all(std::move(sequence.tokens)) : sequence;
}

SupervisedSequence SupervisedRows::encode_conversation(const Json& messages, const Example& example) const {
  SupervisedSequence whole =
      train_all(prompts_.encoder().full_conversation(messages, prompts_.variables(), example.tools));
  if (whole.trained_count() == 0) throw BadRow(example.place, "the conversation has no tokens");
  return whole;
}

SupervisedSequence SupervisedRows::encode_completion(const Json& messages, size_t first, const Example& example) const {
  if (first == messages.size() || !is_assistant(messages[first]))
    throw BadRow(example.place,
                 "the completion does not begin with an assistant message; its roles: " + list_roles(messages, first));
  const EncodedReply reply = prompts_.encoder().reply(messages, first, prompts_.variables(), example.tools);
  SupervisedSequence sequence;
  append(sequence, reply.prompt.tokens, false);
  append(sequence, reply.tokens, true);
  if (reply.prompt.tokens.empty() || reply.tokens.empty())
    throw BadRow(example.place, "the prompt or the completion has no tokens");
  return sequence;
}

std::vector<SupervisedSequence> SupervisedRows::encode_turns(const Json& messages, size_t first, size_t added,
                                                             const Example& example) const {
  const std::string& place = example.place;
  std::vector<SupervisedSequence> sequences;
  Json so_far = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    so_far.push_back(messages[i]);
    if (i < first || !is_assistant(messages[i])) continue;
    const std::string name = "message " + std::to_string(i - added + 1) + ", the assistant's,";
    if (!loss_mark(messages[i], name, place).value_or(true)) continue;
    if (i == added) throw BadRow(place, "the conversation begins with an assistant message");
    if (trimmed(messages[i].value("content", "")).empty() && !messages[i].contains("tool_calls"))
      throw BadRow(place, name + " is empty");
    EncodedReply reply = prompts_.encoder().reply(so_far, i, prompts_.variables(), example.tools);
    if (reply.prompt.tokens.empty()) throw BadRow(place, name + " has no tokens before it");
    const auto stop = std::find_if(reply.tokens.begin(), reply.tokens.end(), [&](int32_t t) { return is_stop(t); });
    if (stop == reply.tokens.end())
      throw BadRow(place, name + " does not end with a stop token in the chat template, so the model would never " +
                              "learn to stop. Fix: correct the template, or eos_token_id in the model's " +
                              "generation_config.json");
    reply.tokens.erase(stop + 1, reply.tokens.end());
    // Extends the sequence while the next prompt starts with it; otherwise begins a new one.
    if (sequences.empty() || !starts_with(reply.prompt.tokens, sequences.back().tokens)) sequences.emplace_back();
    SupervisedSequence& sequence = sequences.back();
    append(sequence, std::span(reply.prompt.tokens).subspan(sequence.tokens.size()), false);
    append(sequence, reply.tokens, true);
  }
  if (sequences.empty())
    throw BadRow(
        place, std::string(first == 0 ? "the conversation" : "the completion") +
                   " has no assistant message with a loss; its roles: " + list_roles(messages, std::max(first, added)));
  return sequences;
}

/// Rejects tools, tool calls and reasoning that the chat template does not render; transformers and TRL ignore this.
void SupervisedRows::require_rendered(const Json& messages, const Example& example) const {
  const PromptEncoder& encoder = prompts_.encoder();
  const auto rendered = [&](const Json& conversation, const Json& tools) {
    return encoder.full_conversation(conversation, prompts_.variables(), tools);
  };
  if (!example.tools.is_null() && rendered(messages, example.tools) == rendered(messages, nullptr))
    throw BadRow(example.place,
                 "the row has tools, but the model's chat template does not render them. Fix: write them into " +
                     std::string("a system message, or use a model whose template renders them"));
  // Renders up to the last message with one of the fields, because templates may drop reasoning of earlier turns.
  const auto is_ignored = [&](const std::vector<const char*>& fields) {
    const auto has_one = [&](const Json& message) {
      return std::any_of(fields.begin(), fields.end(), [&](const char* field) { return message.contains(field); });
    };
    const auto last = std::find_if(messages.rbegin(), messages.rend(), has_one);
    if (last == messages.rend()) return false;
    const Json conversation(Json::array_t(messages.begin(), last.base()));
    Json stripped = conversation;
    for (Json& message : stripped) {
      for (const char* field : fields) message.erase(field);
      if (!message.contains("content")) message["content"] = "";
    }
    return rendered(stripped, example.tools) == rendered(conversation, example.tools);
  };
  if (is_ignored({"tool_calls"}))
    throw BadRow(example.place,
                 "a message has tool_calls, but the model's chat template does not render them. Fix: write " +
                     std::string("the calls into its content, or use a model whose template renders them"));
  if (is_ignored({"function_call"}))
    throw BadRow(example.place, "a message has function_call, but the model's chat template does not render it. Fix: " +
                                    std::string("write tool_calls"));
  if (is_ignored({"reasoning_content", "thinking", "reasoning"}))
    throw BadRow(example.place,
                 "a message has reasoning_content (or thinking, reasoning), but the model's chat template " +
                     std::string("does not render it. Fix: move it into the content, or remove it"));
}

/// Rejects loss marks of messages that sft.loss_on would ignore.
void SupervisedRows::check_loss_marks(const Json& messages, size_t first, size_t added,
                                      const std::string& place) const {
  const bool only_completion = loss_on_ == LossOn::kCompletion && first < messages.size() && first > 0;
  for (size_t i = added; i < messages.size(); ++i) {
    const std::string name = "message " + std::to_string(i - added + 1);
    const std::optional<bool> marked = loss_mark(messages[i], name, place);
    const bool by_turns = loss_on_ == LossOn::kAssistant;
    if (by_turns && marked == true && !is_assistant(messages[i]))
      throw BadRow(place,
                   name + " has a loss mark (weight or loss), but is not an assistant message, and " +
                       "sft.loss_on=assistant trains only on those. Fix: remove the mark, or set sft.loss_on=all");
    if (!by_turns && marked == false && (!only_completion || i >= first))
      throw BadRow(place, name + " is excluded from the loss (weight or loss), but sft.loss_on=" +
                              (loss_on_ == LossOn::kAll ? "all" : "completion") +
                              " trains on all tokens. Fix: set sft.loss_on=assistant, or remove the mark");
  }
}

}  // namespace keel
