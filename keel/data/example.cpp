// Converts rows to examples and checks what their columns hold, for RL and SFT.

#include <algorithm>
#include <set>

#include "keel/core/json_reader.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"
#include "keel/data/schema.h"

namespace keel {
namespace {

constexpr size_t kMaxFields = 1000;  // of a message; lookup is linear

const Json& required_column(const Row& row, const std::string& path, const std::string& key) {
  const Json* value = find_column(row.value, path);
  const bool parquet = row.place.find(", row group ") != std::string::npos;
  const char* null = parquet ? " is null, or bytes that are not text" : " is null";
  if (value == nullptr || value->is_null())
    throw BadRow(row.place, "column " + printable(path) + (value == nullptr ? " is missing" : null) + "; the row has " +
                                column_names(row.value) + ". Fix: set " + key +
                                " to another column; data.bad_rows=skip skips it");
  return *value;
}

/// The columns would change the model's input.
void reject_unsupported_columns(const Row& row, const Columns& columns) {
  static const std::set<std::string> kMedia = {"image", "images", "video", "videos", "audio", "audios"};
  for (const auto& [name, value] : row.value.items()) {
    const auto is_null = [](const Json& part) { return part.is_null(); };
    if (value.empty() || value == "" || (value.is_object() && std::all_of(value.begin(), value.end(), is_null)))
      continue;
    std::string problem;
    if (kMedia.contains(lower_case(name))) problem = ", but Keel reads only texts. Fix: remove the column";
    if (name == "functions" && columns.kind == RowKind::kSupervised)
      problem = ", which chat templates do not receive. Fix: write the functions as tools";
    if (name == "chat_template_kwargs")
      problem =
          ", but the chat template gets the same variables for all rows. Fix: set data.chat_template_kwargs, and "
          "remove the column";
    if (!problem.empty())
      throw BadRow(row.place, "the row has " + name + problem + "; data.bad_rows=skip skips the row");
  }
}

[[noreturn]] void refuse_message(const std::string& place, size_t index, const std::string& conversation,
                                 const std::string& what) {
  throw BadRow(place, "message " + std::to_string(index + 1) + " of " + conversation + " " + what);
}

/// Returns the message without null fields, which Parquet files add. A message with tool_calls may have no content if
/// `allows_calls`.
Json checked_message(Json message, size_t index, const std::string& conversation, const std::string& place,
                     bool allows_calls) {
  if (!message.is_object())
    refuse_message(place, index, conversation,
                   std::string("is not an object but ") + message.type_name() +
                       (message.is_string() ? ". Fix: write an object for each row, not a list for each column" : ""));
  if (message.size() > kMaxFields)
    refuse_message(
        place, index, conversation,
        "has " + std::to_string(message.size()) + " fields (at most " + std::to_string(kMaxFields) + " are read)");
  for (auto field = message.begin(); field != message.end();) field = field->is_null() ? message.erase(field) : ++field;
  const bool has_calls = allows_calls && message.contains("tool_calls");
  for (const std::string field : {"role", "content"}) {
    if (has_calls && field == "content" && !message.contains(field)) continue;
    if (!message.contains(field)) refuse_message(place, index, conversation, "has no " + field);
    if (!message[field].is_string())
      refuse_message(place, index, conversation,
                     "has a " + field + " that is not a text but " + message[field].type_name());
  }
  return message;
}

/// Detects a conversation serialised as JSON or Python text, as CSV files hold it.
bool is_serialised_conversation(std::string_view text) {
  const auto has_key = [&](const std::string& field) {
    return text.find("\"" + field + "\"") != std::string_view::npos ||
           text.find("'" + field + "'") != std::string_view::npos;
  };
  std::string compact(text);
  std::erase_if(compact, [](unsigned char c) { return c <= ' '; });
  const bool is_array = compact.starts_with("array([{") && compact.ends_with(')');
  const bool is_list = compact.starts_with("[{") && compact.ends_with("}]"),
             is_message = compact.starts_with('{') && compact.ends_with('}');
  return (is_array || is_list || is_message) && has_key("role") && has_key("content");
}

/// Requires a text that is not empty, or a list of messages. A column that the configuration names (`named`) may hold a
/// conversation serialised as text.
Json checked_part(Json value, const std::string& what, const std::string& place, bool named, RowKind kind) {
  if (value.is_array()) {
    if (value.empty()) throw BadRow(place, what + " is an empty conversation");
    for (size_t i = 0; i < value.size(); ++i)
      value[i] = checked_message(std::move(value[i]), i, what, place, kind == RowKind::kSupervised);
    return value;
  }
  if (!value.is_string())
    throw BadRow(place, what + " is neither a text nor a list of messages but " + value.type_name());
  const std::string_view text = trimmed(value.get_ref<const std::string&>());
  if (text.empty()) throw BadRow(place, what + " is empty");
  if (!named && is_serialised_conversation(text))
    throw BadRow(place, what + " is a conversation written as a text. Fix: write JSON lines or " +
                            "Parquet, which store lists of messages");
  return value;
}

/// Returns whether a value is a text that pandas or Python writes for a missing one.
bool is_missing_value_text(const Json& value) {
  return value == "nan" || value == "NaN" || value == "None" || value == "<NA>";
}

/// Rejects a row with different values in two columns that may be the answer.
void reject_two_answers(const Row& row, const Columns& columns, const std::string& answer) {
  const auto text = [&](const std::string& path) {
    const Json* value = find_column(row.value, path);
    return value->is_string() ? value->get<std::string>() : value->dump();
  };
  for (const std::string& other : columns.answers) {
    const Json* value = find_column(row.value, other);
    if (other == answer || value == nullptr || value->is_null() || text(other) == text(answer)) continue;
    throw BadRow(row.place, "the row has " + answer + " and " + other + ", and either may be the answer. Fix: set " +
                                columns.answer_key() + "=" + answer + " or " + columns.answer_key() + "=" + other +
                                "; data.bad_rows=skip skips it");
  }
}

/// Converts "...\n#### 1,234" to "1234", as is usual for GSM8K.
Json answer_after_hashes(const Json& value, const std::string& place) {
  const size_t hashes = value.is_string() ? value.get_ref<const std::string&>().rfind("####") : std::string::npos;
  if (hashes == std::string::npos) throw BadRow(place, "the answer has no \"####\" with the result after it");
  std::string answer(trimmed(std::string_view(value.get_ref<const std::string&>()).substr(hashes + 4)));
  std::erase(answer, ',');
  return answer;
}

/// Accepts a list of one name, as in open-instruct: ["math"].
std::string parse_source(const Json& value) {
  if (value.is_array() && value.size() == 1 && value[0].is_string()) return value[0].get<std::string>();
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Parses the row's tools: a list, or JSON text of a list as in TRL data sets. Returns null if there are none.
Json parse_tools(const Row& row) {
  const Json* column = find_column(row.value, "tools");
  if (column == nullptr) return nullptr;
  Json list = *column;
  if (list.is_string()) {
    try {
      list = parse_json(list.get<std::string>());
    } catch (const std::exception&) {
      throw BadRow(row.place, "the tools are a text that is not JSON (expected a list of functions)");
    }
  }
  if (list.empty()) return nullptr;
  if (!list.is_array()) throw BadRow(row.place, std::string("the tools are not a list but ") + list.type_name());
  return list;
}

void read_prompt_row(Example& example, const Row& row, const Columns& columns) {
  const std::string what = "the prompt (" + columns.prompt + ")";
  const Json& prompt = required_column(row, columns.prompt, "data.prompt_key");
  example.prompt = checked_part(prompt, what, row.place, /*named=*/false, columns.kind);
  if (example.prompt.is_array() && example.prompt.back()["role"] == "assistant")
    throw BadRow(row.place, what + " ends with an assistant message. Fix: remove it");
  if (columns.answer_named) required_column(row, columns.answers[0], "data.answer_key");
  const std::string column = filled_column(row.value, columns.answers);
  const Json* answer = find_column(row.value, column);
  if (answer != nullptr && !answer->is_null() && (columns.answer_named || !is_missing_value_text(*answer))) {
    reject_two_answers(row, columns, column);
    const bool hashes = columns.answer_after_hashes && column == "answer";
    example.answer = hashes ? answer_after_hashes(*answer, row.place) : *answer;
  }
  if (columns.source_named) required_column(row, columns.sources[0], "data.source_key");
  const Json* source = find_column(row.value, filled_column(row.value, columns.sources));
  if (source != nullptr && !source->is_null()) example.source = parse_source(*source);
}

void read_supervised_row(Example& example, Row& row, const Columns& columns) {
  const bool prompt_only = columns.answers.empty();
  const char* noun = columns.whole_text ? "the text" : prompt_only ? "the conversation" : "the prompt";
  const std::string what = std::string(noun) + " (" + printable(columns.prompt) + ")";
  const Json& prompt = required_column(row, columns.prompt, columns.whole_text ? "sft.text_key" : "sft.prompt_key");
  example.prompt = checked_part(prompt, what, row.place, columns.whole_text, columns.kind);
  if (columns.whole_text && !example.prompt.is_string())
    throw BadRow(row.place, what + " is a list. Fix: sft.prompt_key=" + columns.prompt + " reads it as a conversation");
  if (prompt_only && !columns.whole_text && !example.prompt.is_array())
    throw BadRow(row.place, what + " is a text (expected a list of messages). Fix: set sft.completion_key to the " +
                                "column of the completion; or sft.text_key=" + columns.prompt +
                                " trains on the whole text");
  if (!prompt_only) {
    const Json& answer = required_column(row, columns.answers[0], columns.answer_key());
    example.answer = checked_part(answer, "the completion (" + printable(columns.answers[0]) + ")", row.place,
                                  columns.answer_named, columns.kind);
    if (!columns.answer_named && is_missing_value_text(example.answer))
      throw BadRow(row.place, "the completion is " + example.answer.dump() +
                                  ", which usually means that there is none. Fix: sft.completion_key=" +
                                  columns.answers[0] + " if it is intended");
  }
  if (example.prompt.is_array() || example.answer.is_array()) {
    example.tools = parse_tools(row);
    row.value.erase("tools");
  }
}

}  // namespace

Example make_example(Row row, const Columns& columns) {
  Example example;
  example.place = row.place;
  reject_unsupported_columns(row, columns);
  if (columns.kind == RowKind::kSupervised)
    read_supervised_row(example, row, columns);
  else
    read_prompt_row(example, row, columns);
  example.extra = std::move(row.value);
  example.extra.erase(columns.prompt);
  return example;
}

}  // namespace keel
