#include "keel/reward/functions/program_reward.h"

#include <charconv>
#include <cmath>

#include "keel/core/console.h"
#include "keel/core/files/json_file.h"
#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

/// Returns the row's prompt text; null for a conversation.
Json row_text(const Prompt& prompt) {
  if (!prompt.messages.is_null()) return nullptr;
  return prompt.row_text.empty() ? prompt.text : prompt.row_text;
}

std::string build_request(std::span<const RewardSample> samples, uint64_t id) {
  Json request = {{"id", id}};
  for (const char* key : {"prompts", "texts", "messages", "completions", "answers", "sources", "extra",
                          "completion_ids", "stopped", "steps", "query", "labels"})
    request[key] = Json::array();
  for (const RewardSample& sample : samples) {
    const Prompt& prompt = sample.prompt;
    request["prompts"].push_back(prompt.text);
    request["texts"].push_back(row_text(prompt));
    request["messages"].push_back(prompt.messages);
    request["completions"].push_back(sample.completion);
    request["answers"].push_back(prompt.answer);
    request["sources"].push_back(prompt.source);
    request["extra"].push_back(prompt.extra);
    request["completion_ids"].push_back(sample.tokens ? Json(*sample.tokens) : Json());
    request["stopped"].push_back(sample.stopped);
    request["steps"].push_back(sample.policy_version);
    request["query"].push_back(prompt.text + sample.with_special_tokens);  // for OpenRLHF's reward servers
    request["labels"].push_back(prompt.answer);
  }
  return json_line(request);
}

/// Parses the reply into an object. Throws ChannelError if it does not answer this request.
Json parse_reply(const std::string& text, uint64_t id) {
  Json reply;
  try {
    reply = parse_json(text, {.depth = kDataDepth, .repeated_keys = false});
  } catch (const JsonParseError& error) {
    throw ChannelError("answered " + printable(text) + ", which is " + error.what() +
                       "; expected one line of JSON, {\"rewards\": [...]}");
  }
  if (reply.is_array()) reply = Json::object({{"rewards", reply}});
  if (!reply.is_object() || !(reply.contains("rewards") || reply.contains("error")))
    throw ChannelError("answered " + printable(text) + "; expected one line of JSON, {\"rewards\": [...]}");
  if (reply.contains("id") && reply["id"] != id)
    throw ChannelDown("answered request " + reply["id"].dump() + " instead of " + std::to_string(id));
  return reply;
}

/// Returns the text of an error, truncated for the terminal.
std::string error_text(const Json& error) {
  constexpr size_t kMaxBytes = 20000;
  std::string reason = error.is_string() ? error.get<std::string>() : error.dump();
  if (reason.size() <= kMaxBytes) return reason;
  const std::string size = "... (" + std::to_string(reason.size()) + " bytes)";
  reason.resize(kMaxBytes);
  return reason.substr(0, first_bad_utf8(reason).value_or(kMaxBytes)) + size;
}

bool is_index(const std::string& text, size_t count) {
  size_t index = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && index < count && std::to_string(index) == text;
}

/// Checks that there is one reward per completion, and that every error belongs to a completion.
void check_reply(const Json& reply, size_t count) {
  if (reply.contains("error")) throw ChannelError(error_text(reply["error"]));
  // ChannelDown prevents a retry with single completions, where a function that always returns one reward would pass.
  if (!reply["rewards"].is_array())
    throw ChannelDown("returned rewards that are " + printable(reply["rewards"].dump()) + "; expected a list");
  if (reply["rewards"].size() != count)
    throw ChannelDown("returned " + std::to_string(reply["rewards"].size()) + " rewards for " + std::to_string(count) +
                      " completions");
  const Json errors = reply.value("errors", Json());
  if (errors.is_null()) return;
  if (!errors.is_object())
    throw ChannelDown("returned errors that are " + printable(errors.dump()) +
                      "; expected an object, {\"0\": \"why\"}");
  for (const auto& [index, error] : errors.items())
    if (!is_index(index, count))
      throw ChannelDown("returned the error " + printable(error_text(error)) + " for completion " + printable(index) +
                        "; expected 0 to " + std::to_string(count - 1));
}

Scores read_scores(const Json& reply) {
  Scores scores;
  for (const Json& reward : reply["rewards"]) {
    const size_t index = scores.rewards.size();
    scores.rewards.emplace_back(reward.is_number()    ? std::optional<double>(reward.get<double>())
                                : reward.is_boolean() ? std::optional<double>(reward.get<bool>())
                                                      : std::nullopt);
    if (!reward.is_null() && !scores.rewards.back())
      scores.failures[index] = "the reward is " + printable(reward.dump()) + "; expected a number or null";
  }
  const Json errors = reply.value("errors", Json::object());
  for (const auto& [index, error] : errors.items()) {
    const size_t i = std::stoul(index);
    scores.failures[i] = error_text(error);
    scores.rewards[i] = std::nullopt;
  }
  return scores;
}

}  // namespace

Scores ProgramReward::request_scores(std::span<const RewardSample> samples) const {
  const uint64_t id = next_id_++;
  Json reply;
  channel_->exchange(build_request(samples, id), [&](const std::string& text) { reply = parse_reply(text, id); });
  print_new_tracebacks(reply);
  check_reply(reply, samples.size());
  return read_scores(reply);
}

/// Prints tracebacks from code locations that had none before, so that a function that always fails prints one.
void ProgramReward::print_new_tracebacks(const Json& reply) const {
  constexpr size_t kMaxPrinted = 100, kMaxBytes = 20000;
  const Json tracebacks = reply.value("tracebacks", Json::array());
  if (!tracebacks.is_array()) return;
  const std::scoped_lock lock(printed_mutex_);
  for (const Json& entry : tracebacks) {
    const Json where = entry.is_object() ? entry.value("where", Json()) : Json();
    const Json text = entry.is_object() ? entry.value("text", Json()) : Json();
    if (!where.is_string() || !text.is_string() || printed_.size() >= kMaxPrinted || !printed_.insert(where).second)
      continue;
    const std::string truncated = text.get<std::string>().substr(0, kMaxBytes);
    print_to_stderr_and_log(escape_controls(truncated, Newlines::kKeep));
  }
}

Scores ProgramReward::operator()(std::span<const RewardSample> samples) const {
  Scores scores{.rewards = std::vector<std::optional<double>>(samples.size()), .failures = {}};
  try {
    return request_scores(samples);
  } catch (const ChannelDown& error) {
    for (size_t i = 0; i < samples.size(); ++i) scores.failures[i] = error.what();
    return scores;
  } catch (const ChannelError&) {
    // Retries each completion alone.
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    try {
      const Scores single = request_scores(samples.subspan(i, 1));
      scores.rewards[i] = single.rewards[0];
      if (!single.failures.empty()) scores.failures[i] = single.failures.at(0);
    } catch (const ChannelError& error) {
      scores.failures[i] = error.what();
    }
  }
  return scores;
}

}  // namespace keel
