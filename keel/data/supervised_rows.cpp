#include "keel/data/supervised_rows.h"

#include <algorithm>
#include <optional>
#include <set>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

void append(SupervisedSequence& sequence, std::span<const int32_t> tokens, bool trained) {
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  sequence.trained.resize(sequence.tokens.size(), trained ? 1 : 0);
}

SupervisedSequence all_of(std::vector<int32_t> tokens) {
  SupervisedSequence sequence{.tokens = std::move(tokens), .trained = {}};
  sequence.trained.resize(sequence.tokens.size(), 1);
  if (!sequence.trained.empty()) sequence.trained.front() = 0;
  return sequence;
}

bool starts_with(const std::vector<int32_t>& tokens, const std::vector<int32_t>& with) {
  return tokens.size() >= with.size() && std::equal(with.begin(), with.end(), tokens.begin());
}

bool is_of_assistant(const Json& message) { return message["role"] == "assistant"; }

/// What a message says of itself: whether it is to be learned, as `weight` of OpenAI's files and `loss` of others do;
/// nothing where it does not say.
std::optional<bool> marked_learned(const Json& message, const std::string& name, const std::string& place) {
  std::optional<bool> learned;
  for (const char* mark : {"weight", "loss"}) {
    const auto said = message.find(mark);
    if (said == message.end()) continue;
    if (*said != 0 && *said != 1 && !said->is_boolean())
      throw BadRow(place, name + " has the " + mark + " " + said->dump() +
                              "; expected 1 or true, or 0 or false: seen " + "and not learned");
    const bool value = said->is_boolean() ? said->get<bool>() : *said == 1;
    if (learned && *learned != value) throw BadRow(place, name + " has a weight and a loss that contradict each other");
    learned = value;
  }
  return learned;
}

/// Of the messages from `first` on, each once.
std::string roles_of(const Json& messages, size_t first) {
  std::set<std::string> roles;
  for (size_t i = first; i < messages.size(); ++i) roles.insert(printable(messages[i]["role"].get<std::string>()));
  return joined(std::vector<std::string>(roles.begin(), roles.end()));
}

}  // namespace

int64_t SupervisedSequence::trained_count() const { return std::count(trained.begin(), trained.end(), 1); }

size_t SupervisedRow::longest() const {
  size_t longest = 0;
  for (const SupervisedSequence& sequence : sequences) longest = std::max(longest, sequence.tokens.size());
  return longest;
}

bool SupervisedRows::is_stop(int32_t token) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
}

SupervisedRow SupervisedRows::row(const Example& example) const {
  const bool alone = example.answer.is_null();
  try {
    if (alone && example.prompt.is_string()) return {{of_text(example)}};
    const bool as_chat = example.answer.is_array() ? prompts_.is_chat(example.answer, example.place)
                                                   : prompts_.is_chat(example.prompt, example.place);
    if (!as_chat) return {{of_texts(example)}};
    Json messages = prompts_.conversation(example.prompt);
    const size_t own = example.prompt.is_array() ? example.prompt.size() : 1, added = messages.size() - own;
    const size_t first = alone ? 0 : messages.size();  // from which on the assistant's words are learned
    if (example.answer.is_array())
      messages.insert(messages.end(), example.answer.begin(), example.answer.end());
    else if (!alone)
      messages.push_back({{"role", "assistant"}, {"content", example.answer}});
    refuse_unseen(messages, example);
    refuse_other_marks(messages, first, added, example.place);
    if (loss_on_ == LossOn::kAssistant) return {of_turns(messages, first, added, example)};
    if (loss_on_ == LossOn::kCompletion && !alone) return {{of_completion(messages, first, example)}};
    return {{of_whole(messages, example)}};
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadConfiguration) throw;  // which every row has
    throw BadRow(example.place, error.what());
  }
}

/// A text by itself goes through no template, and ends with the tokenizer's own end of a sequence.
SupervisedSequence SupervisedRows::of_text(const Example& example) const {
  if (prompts_.is_chat(example.prompt, example.place))
    fail(ExitCode::kBadConfiguration, example.place, ": the row is a text, which is learned as it is, but data.chat ",
         "or data.system_prompt asks for the chat template; drop that, or give messages, or a prompt and a completion");
  std::vector<int32_t> tokens =
      prompts_.encoder().text(example.prompt.get<std::string>(), /*parse_special=*/true).tokens;
  if (tokens.empty()) throw BadRow(example.place, "the text has no tokens");
  if (tokens.back() != stop_ids_.front()) tokens.push_back(stop_ids_.front());
  return all_of(std::move(tokens));
}

SupervisedSequence SupervisedRows::of_texts(const Example& example) const {
  EncodedReply reply = prompts_.encoder().reply(example.prompt.get<std::string>(), example.answer.get<std::string>(),
                                                /*parse_special=*/true);
  if (reply.prompt.tokens.empty()) throw BadRow(example.place, "the prompt has no tokens");
  if (reply.tokens.empty()) throw BadRow(example.place, "the completion has no tokens");
  if (!is_stop(reply.tokens.back())) reply.tokens.push_back(stop_ids_.front());
  SupervisedSequence sequence;
  append(sequence, reply.prompt.tokens, false);
  append(sequence, reply.tokens, true);
  return loss_on_ == LossOn::kAll ? all_of(std::move(sequence.tokens)) : sequence;
}

SupervisedSequence SupervisedRows::of_whole(const Json& messages, const Example& example) const {
  SupervisedSequence whole = all_of(prompts_.encoder().full_conversation(messages, prompts_.words(), example.tools));
  if (whole.trained_count() == 0) throw BadRow(example.place, "the conversation has no tokens");
  return whole;
}

SupervisedSequence SupervisedRows::of_completion(const Json& messages, size_t first, const Example& example) const {
  if (first == messages.size() || !is_of_assistant(messages[first]))
    throw BadRow(example.place, "the completion does not begin with a message of the assistant's; its roles: " +
                                    roles_of(messages, first));
  const EncodedReply reply = prompts_.encoder().reply(messages, first, prompts_.words(), example.tools);
  SupervisedSequence sequence;
  append(sequence, reply.prompt.tokens, false);
  append(sequence, reply.tokens, true);
  if (reply.prompt.tokens.empty() || reply.tokens.empty())
    throw BadRow(example.place, "the prompt or the completion has no tokens");
  return sequence;
}

std::vector<SupervisedSequence> SupervisedRows::of_turns(const Json& messages, size_t first, size_t added,
                                                         const Example& example) const {
  const std::string& place = example.place;
  std::vector<SupervisedSequence> sequences;
  Json so_far = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    so_far.push_back(messages[i]);
    if (i < first || !is_of_assistant(messages[i])) continue;
    const std::string name = "message " + std::to_string(i - added + 1) + ", the assistant's,";
    if (!marked_learned(messages[i], name, place).value_or(true)) continue;
    if (i == added) throw BadRow(place, "the conversation begins with the assistant's words, which answer nothing");
    if (trimmed(messages[i].value("content", "")).empty() && !messages[i].contains("tool_calls"))
      throw BadRow(place, name + " is empty");
    EncodedReply reply = prompts_.encoder().reply(so_far, i, prompts_.words(), example.tools);
    if (reply.prompt.tokens.empty())
      throw BadRow(place, "nothing stands before " + name + " so that it answers nothing");
    const auto stop = std::find_if(reply.tokens.begin(), reply.tokens.end(), [&](int32_t t) { return is_stop(t); });
    if (stop == reply.tokens.end())
      throw BadRow(place, name + " has no stop token at its end as the chat template writes it, so that the model " +
                              "would learn to go on for ever; the template, or eos_token_id in the model's " +
                              "generation_config.json, is to be mended");
    reply.tokens.erase(stop + 1, reply.tokens.end());
    // One sequence for all turns, as long as the next prompt is what was said so far and more.
    if (sequences.empty() || !starts_with(reply.prompt.tokens, sequences.back().tokens)) sequences.emplace_back();
    SupervisedSequence& sequence = sequences.back();
    append(sequence, std::span(reply.prompt.tokens).subspan(sequence.tokens.size()), false);
    append(sequence, reply.tokens, true);
  }
  if (sequences.empty())
    throw BadRow(place, std::string(first == 0 ? "the conversation" : "the completion") +
                            " has no message of the assistant's that is learned; its roles: " +
                            roles_of(messages, std::max(first, added)));
  return sequences;
}

/// A template is free to write nothing of what it is given; transformers and TRL do not mind.
void SupervisedRows::refuse_unseen(const Json& messages, const Example& example) const {
  const PromptEncoder& encoder = prompts_.encoder();
  const auto rendered = [&](const Json& talk, const Json& tools) {
    return encoder.full_conversation(talk, prompts_.words(), tools);
  };
  if (!example.tools.is_null() && rendered(messages, example.tools) == rendered(messages, nullptr))
    throw BadRow(example.place,
                 "the row has tools, and the model's chat template does not show them; write them into " +
                     std::string("a system message, or take a model whose template does"));
  // Up to the last message that has one of the fields: of earlier turns a template may leave out what was thought.
  const auto is_unseen = [&](const std::vector<const char*>& fields) {
    const auto has_one = [&](const Json& message) {
      return std::any_of(fields.begin(), fields.end(), [&](const char* field) { return message.contains(field); });
    };
    const auto last = std::find_if(messages.rbegin(), messages.rend(), has_one);
    if (last == messages.rend()) return false;
    const Json talk(Json::array_t(messages.begin(), last.base()));
    Json without = talk;
    for (Json& message : without) {
      for (const char* field : fields) message.erase(field);
      if (!message.contains("content")) message["content"] = "";
    }
    return rendered(without, example.tools) == rendered(talk, example.tools);
  };
  if (is_unseen({"tool_calls"}))
    throw BadRow(example.place, "a message has tool_calls, and the model's chat template does not write them; write " +
                                    std::string("the calls into its content, or take a model whose template does"));
  if (is_unseen({"function_call"}))
    throw BadRow(example.place, "a message has function_call, and the model's chat template does not write it. Fix: " +
                                    std::string("write tool_calls"));
  if (is_unseen({"reasoning_content", "thinking", "reasoning"}))
    throw BadRow(example.place,
                 "a message has reasoning_content (or thinking, reasoning), and the model's chat template " +
                     std::string("does not write it; write it into its content, as the model is to say it, or ") +
                     "remove it");
}

/// A mark that what is learned does not follow would be a wish that nobody hears.
void SupervisedRows::refuse_other_marks(const Json& messages, size_t first, size_t added,
                                        const std::string& place) const {
  const bool of_completion = loss_on_ == LossOn::kCompletion && first < messages.size() && first > 0;
  for (size_t i = added; i < messages.size(); ++i) {
    const std::string name = "message " + std::to_string(i - added + 1);
    const std::optional<bool> marked = marked_learned(messages[i], name, place);
    const bool by_turns = loss_on_ == LossOn::kAssistant, is_said = is_of_assistant(messages[i]);
    if (by_turns && marked == true && !is_said)
      throw BadRow(place, name + " is marked to be learned (weight or loss), and is not the assistant's, whose words " +
                              "alone sft.loss_on=assistant learns; remove the mark, or set sft.loss_on=all");
    if (!by_turns && marked == false && (!of_completion || i >= first))
      throw BadRow(place, name + " is marked as not to be learned (weight or loss), and sft.loss_on=" +
                              (loss_on_ == LossOn::kAll ? "all" : "completion") +
                              " learns all tokens; set sft.loss_on=assistant, or remove the mark");
  }
}

}  // namespace keel
