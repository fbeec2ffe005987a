#include "keel/reward/functions/program_reward.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "keel/core/console.h"
#include "keel/core/files/json_file.h"
#include "keel/core/foreign_text.h"

namespace keel {
namespace {

/// The row's own prompt where it is a text; null where it is a conversation.
Json text_of_row(const Prompt& prompt) {
  if (!prompt.messages.is_null()) return nullptr;
  return prompt.row_text.empty() ? prompt.text : prompt.row_text;
}

std::string request_text(std::span<const RewardSample> samples, uint64_t id) {
  Json request = {{"id", id}};
  for (const char* key : {"prompts", "texts", "messages", "completions", "answers", "sources", "extra",
                          "completion_ids", "stopped", "steps", "query", "labels"})
    request[key] = Json::array();
  for (const RewardSample& sample : samples) {
    const Prompt& prompt = sample.prompt;
    request["prompts"].push_back(prompt.text);
    request["texts"].push_back(text_of_row(prompt));
    request["messages"].push_back(prompt.messages);
    request["completions"].push_back(sample.completion);
    request["answers"].push_back(prompt.answer);
    request["sources"].push_back(prompt.source);
    request["extra"].push_back(prompt.extra);
    request["completion_ids"].push_back(sample.tokens ? Json(*sample.tokens) : Json());
    request["stopped"].push_back(sample.stopped);
    request["steps"].push_back(sample.policy_version);
    request["query"].push_back(prompt.text + sample.with_special_tokens);  // what OpenRLHF's reward servers read
    request["labels"].push_back(prompt.answer);
  }
  return json_line(request);
}

/// The reply as an object; a ChannelError when it is no answer to this request.
Json parse_reply(const std::string& text, uint64_t id) {
  Json reply;
  try {
    reply = parse_json(text, {.depth = kDataDepth, .repeated_keys = false});
  } catch (const JsonFault& fault) {
    throw ChannelError("answered " + printable(text) + ", which is " + fault.what() +
                       "; expected one line of JSON, {\"rewards\": [...]}");
  }
  if (reply.is_array()) reply = Json::object({{"rewards", reply}});
  if (!reply.is_object() || !(reply.contains("rewards") || reply.contains("error")))
    throw ChannelError("answered " + printable(text) + "; expected one line of JSON, {\"rewards\": [...]}");
  if (reply.contains("id") && reply["id"] != id)
    throw ChannelDown("answered request " + reply["id"].dump() + " instead of " + std::to_string(id));
  return reply;
}

/// The beginning of a long one: it is told on the terminal.
std::string reason_of(const Json& error) {
  constexpr size_t kMostBytes = 20000;
  std::string reason = error.is_string() ? error.get<std::string>() : error.dump();
  if (reason.size() <= kMostBytes) return reason;
  const std::string size = "... (" + std::to_string(reason.size()) + " bytes)";
  reason.resize(kMostBytes);
  return reason.substr(0, first_bad_utf8(reason).value_or(kMostBytes)) + size;
}

bool is_place(const std::string& text, size_t count) {
  size_t place = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), place);
  return error == std::errc() && place < count && std::to_string(place) == text;
}

/// Sees that there is one reward for each completion, and that every error is of one.
void check_reply(const Json& reply, size_t count) {
  if (reply.contains("error")) throw ChannelError(reason_of(reply["error"]));
  // Not tried again with one completion each, where a function that always gives one would be right by accident.
  if (!reply["rewards"].is_array())
    throw ChannelDown("gave rewards that are " + printable(reply["rewards"].dump()) + "; expected a list");
  if (reply["rewards"].size() != count)
    throw ChannelDown("gave " + std::to_string(reply["rewards"].size()) + " rewards for " + std::to_string(count) +
                      " completions");
  const Json errors = reply.value("errors", Json());
  if (errors.is_null()) return;
  if (!errors.is_object())
    throw ChannelDown("gave errors that are " + printable(errors.dump()) + "; expected an object, {\"0\": \"why\"}");
  for (const auto& [place, error] : errors.items())
    if (!is_place(place, count))
      throw ChannelDown("gave the error " + printable(reason_of(error)) + " for " + printable(place) +
                        ", which is no completion; they have the numbers from 0 to " + std::to_string(count - 1));
}

Scores scores_of(const Json& reply) {
  Scores scores;
  for (const Json& reward : reply["rewards"]) {
    const size_t place = scores.rewards.size();
    scores.rewards.emplace_back(reward.is_number()    ? std::optional<double>(reward.get<double>())
                                : reward.is_boolean() ? std::optional<double>(reward.get<bool>())
                                                      : std::nullopt);
    if (!reward.is_null() && !scores.rewards.back())
      scores.failures[place] = "the reward is " + printable(reward.dump()) + "; expected a number or null";
  }
  const Json errors = reply.value("errors", Json::object());
  for (const auto& [place, error] : errors.items()) {
    const size_t i = std::stoul(place);
    scores.failures[i] = reason_of(error);
    scores.rewards[i] = std::nullopt;
  }
  return scores;
}

}  // namespace

Scores ProgramReward::ask(std::span<const RewardSample> samples) const {
  const uint64_t id = next_id_++;
  Json reply;
  channel_->exchange(request_text(samples, id), [&](const std::string& text) { reply = parse_reply(text, id); });
  tell_tracebacks(reply);
  check_reply(reply, samples.size());
  return scores_of(reply);
}

/// Each that was not told before, by the place it comes from: a function that fails on every completion says so once.
void ProgramReward::tell_tracebacks(const Json& reply) const {
  constexpr size_t kMostTold = 100, kMostBytes = 20000;
  const Json tracebacks = reply.value("tracebacks", Json::array());
  if (!tracebacks.is_array()) return;
  const std::scoped_lock lock(told_mutex_);
  for (const Json& entry : tracebacks) {
    const Json where = entry.is_object() ? entry.value("where", Json()) : Json();
    const Json text = entry.is_object() ? entry.value("text", Json()) : Json();
    if (!where.is_string() || !text.is_string() || told_.size() >= kMostTold || !told_.insert(where).second) continue;
    const std::string shown = text.get<std::string>().substr(0, kMostBytes);
    std::fputs(escape_controls(shown, Newlines::kKeep).c_str(), stderr);
  }
}

Scores ProgramReward::operator()(std::span<const RewardSample> samples) const {
  Scores scores{.rewards = std::vector<std::optional<double>>(samples.size()), .failures = {}};
  try {
    return ask(samples);
  } catch (const ChannelDown& error) {
    for (size_t i = 0; i < samples.size(); ++i) scores.failures[i] = error.what();
    return scores;
  } catch (const ChannelError&) {
    // Each again, alone.
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    try {
      const Scores one = ask(samples.subspan(i, 1));
      scores.rewards[i] = one.rewards[0];
      if (!one.failures.empty()) scores.failures[i] = one.failures.at(0);
    } catch (const ChannelError& error) {
      scores.failures[i] = error.what();
    }
  }
  return scores;
}

}  // namespace keel
