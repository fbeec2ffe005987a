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

/// Rejects columns that would change the model's input but are not supported.
void refuse_unread(const Row& row, const Columns& columns) {
  static const std::set<std::string> kMedia = {"image", "images", "video", "videos", "audio", "audios"};
  for (const auto& [name, value] : row.value.items()) {
    const auto is_null = [](const Json& part) { return part.is_null(); };
    if (value.empty() || value == "" || (value.is_object() && std::all_of(value.begin(), value.end(), is_null)))
      continue;
    std::string problem;
    if (kMedia.contains(lower_case(name))) problem = ", but Keel reads only texts. Fix: remove the column";
    if (name == "functions" && columns.kind == RowKind::kSupervised)
      problem = ", which chat templates do not get. Fix: write the functions as tools";
    if (name == "chat_template_kwargs")
      problem =
          ", but the chat template gets the same variables for all rows. Fix: set data.chat_template_kwargs, and "
          "remove the column";
    if (!problem.empty())
      throw BadRow(row.place, "the row has " + name + problem + "; data.bad_rows=skip skips the row");
  }
}

[[noreturn]] void refuse_message(const std::string& place, size_t index, const std::string& of,
                                 const std::string& what) {
  throw BadRow(place, "message " + std::to_string(index + 1) + " of " + of + " " + what);
}

/// Returns the message without null fields, which Parquet files add. A message with tool_calls may have no content if
/// `calls_allowed`.
Json checked_message(Json message, size_t index, const std::string& of, const std::string& place, bool calls_allowed) {
  if (!message.is_object())
    refuse_message(place, index, of,
                   std::string("is not an object but ") + message.type_name() +
                       (message.is_string() ? ". Fix: write an object for each row, not a list for each column" : ""));
  if (message.size() > kMaxFields)
    refuse_message(
        place, index, of,
        "has " + std::to_string(message.size()) + " fields (at most " + std::to_string(kMaxFields) + " are read)");
  for (auto field = message.begin(); field != message.end();) field = field->is_null() ? message.erase(field) : ++field;
  const bool calls = calls_allowed && message.contains("tool_calls");
  for (const std::string field : {"role", "content"}) {
    if (calls && field == "content" && !message.contains(field)) continue;
    if (!message.contains(field)) refuse_message(place, index, of, "has no " + field);
    if (!message[field].is_string())
      refuse_message(place, index, of, "has a " + field + " that is not a text but " + message[field].type_name());
  }
  return message;
}

/// Detects a conversation serialised as JSON or Python text, as CSV files hold it.
bool is_serialised_conversation(std::string_view text) {
  const auto names = [&](const std::string& field) {
    return text.find("\"" + field + "\"") != std::string_view::npos ||
           text.find("'" + field + "'") != std::string_view::npos;
  };
  std::string bare(text);
  std::erase_if(bare, [](unsigned char c) { return c <= ' '; });
  const bool of_numpy = bare.starts_with("array([{") && bare.ends_with(')');
  const bool list = bare.starts_with("[{") && bare.ends_with("}]"),
             message = bare.starts_with('{') && bare.ends_with('}');
  return (of_numpy || list || message) && names("role") && names("content");
}

/// A text that is not empty, or a list of messages. `named` by a key, a text may be a conversation written as a text.
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
    throw BadRow(place, what + " is a conversation written as a text, brackets and all. Fix: write JSON lines or " +
                            "Parquet, where a list of messages stays one");
  return value;
}

/// Returns whether a value is a text that pandas or Python writes for a missing one.
bool is_written_nothing(const Json& value) {
  return value == "nan" || value == "NaN" || value == "None" || value == "<NA>";
}

/// Two columns that may be the answer and differ: the user decides.
void refuse_two_answers(const Row& row, const Columns& columns, const std::string& answer) {
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

/// "...\n#### 1,234" is "1234", as everyone who prepares GSM8K takes it.
Json answer_after_hashes(const Json& value, const std::string& place) {
  const size_t hashes = value.is_string() ? value.get_ref<const std::string&>().rfind("####") : std::string::npos;
  if (hashes == std::string::npos) throw BadRow(place, "the answer has no \"####\" with the result after it");
  std::string answer(trimmed(std::string_view(value.get_ref<const std::string&>()).substr(hashes + 4)));
  std::erase(answer, ',');
  return answer;
}

/// Accepts a list of one name, as open-instruct writes it: ["math"].
std::string source_of(const Json& value) {
  if (value.is_array() && value.size() == 1 && value[0].is_string()) return value[0].get<std::string>();
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The row's tools: a list, or JSON text of a list as in TRL data sets; null if there are none.
Json tools_of(const Row& row) {
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
  if (answer != nullptr && !answer->is_null() && (columns.answer_named || !is_written_nothing(*answer))) {
    refuse_two_answers(row, columns, column);
    const bool hashes = columns.answer_after_hashes && column == "answer";
    example.answer = hashes ? answer_after_hashes(*answer, row.place) : *answer;
  }
  if (columns.source_named) required_column(row, columns.sources[0], "data.source_key");
  const Json* source = find_column(row.value, filled_column(row.value, columns.sources));
  if (source != nullptr && !source->is_null()) example.source = source_of(*source);
}

void read_supervised_row(Example& example, Row& row, const Columns& columns) {
  const bool alone = columns.answers.empty();
  const char* word = columns.whole_text ? "the text" : alone ? "the conversation" : "the prompt";
  const std::string what = std::string(word) + " (" + printable(columns.prompt) + ")";
  const Json& prompt = required_column(row, columns.prompt, columns.whole_text ? "sft.text_key" : "sft.prompt_key");
  example.prompt = checked_part(prompt, what, row.place, columns.whole_text, columns.kind);
  if (columns.whole_text && !example.prompt.is_string())
    throw BadRow(row.place, what + " is a list. Fix: sft.prompt_key=" + columns.prompt + " reads it as a conversation");
  if (alone && !columns.whole_text && !example.prompt.is_array())
    throw BadRow(row.place, what + " is a text (expected a list of messages). Fix: set sft.completion_key to the " +
                                "column of the completion; or sft.text_key=" + columns.prompt +
                                " trains on the whole text");
  if (!alone) {
    const Json& answer = required_column(row, columns.answers[0], columns.answer_key());
    example.answer = checked_part(answer, "the completion (" + printable(columns.answers[0]) + ")", row.place,
                                  columns.answer_named, columns.kind);
    if (!columns.answer_named && is_written_nothing(example.answer))
      throw BadRow(row.place, "the completion is " + example.answer.dump() +
                                  ", which usually means that there is none. Fix: sft.completion_key=" +
                                  columns.answers[0] + " if it is intended");
  }
  if (example.prompt.is_array() || example.answer.is_array()) {
    example.tools = tools_of(row);
    row.value.erase("tools");
  }
}

}  // namespace

Example make_example(Row row, const Columns& columns) {
  Example example;
  example.place = row.place;
  refuse_unread(row, columns);
  if (columns.kind == RowKind::kSupervised)
    read_supervised_row(example, row, columns);
  else
    read_prompt_row(example, row, columns);
  example.extra = std::move(row.value);
  example.extra.erase(columns.prompt);
  return example;
}

}  // namespace keel
