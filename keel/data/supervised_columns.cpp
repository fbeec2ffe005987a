#include "keel/data/supervised_columns.h"

#include "keel/core/foreign_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

struct Pair {
  const char *prompt, *completion;
};

/// Under which names people keep what is to be imitated; the first that a row has is taken, and `messages` before all.
constexpr Pair kPairs[] = {{"prompt", "completion"}, {"prompt", "response"},    {"question", "answer"},
                           {"problem", "solution"},  {"instruction", "output"}, {"instruction", "response"},
                           {"question", "response"}, {"input", "output"}};

bool has(const Json& row, const std::string& path) {
  const Json* value = find_column(row, path);
  return value != nullptr && !value->is_null();
}

/// The first pair of columns that holds something, else the first that is there: which of the two is null is told
/// where the row is read.
Pair best_pair(const Json& row) {
  for (const Pair& pair : kPairs)
    if (has(row, pair.prompt) && has(row, pair.completion)) return pair;
  for (const Pair& pair : kPairs)
    if (find_column(row, pair.prompt) && find_column(row, pair.completion)) return pair;
  return {"", ""};
}

Columns recognise_supervised(const Row& row, const DataOptions& options) {
  Columns columns{.schema = "the configured columns",
                  .prompt = options.prompt_key,
                  .answer = options.answer_key,
                  .source = "",
                  .answer_required = !options.answer_key.empty(),
                  .prompt_named = !options.prompt_key.empty(),
                  .section = "sft"};
  if (columns.prompt.empty() && columns.answer.empty()) {
    if (has(row.value, "messages"))
      columns.schema = "a conversation", columns.prompt = "messages";
    else
      columns.schema = "a prompt and its completion", columns.prompt = best_pair(row.value).prompt,
      columns.answer = best_pair(row.value).completion;
    if (columns.prompt.empty())
      throw BadRow(row.place, "the row has " + column_names(row.value) +
                                  ", and nothing that is known to be imitated: " +
                                  "messages, or prompt and completion; name its columns with sft.prompt_key and " +
                                  "sft.completion_key, data.bad_rows=skip passes over");
  } else if (columns.prompt.empty()) {
    for (const auto& [prompt, completion] : kPairs)
      if (columns.prompt.empty() && has(row.value, prompt)) columns.prompt = prompt;
    if (columns.prompt.empty())
      throw BadRow(row.place, "sft.completion_key names " + printable(columns.answer) + ", but no column is known to " +
                                  "be the prompt; the row has " + column_names(row.value) +
                                  ". Set sft.prompt_key, data.bad_rows=skip passes over");
  }
  columns.conversation = required_column(row, columns.prompt, columns.section, "prompt_key").is_array();
  if (const Json* answer = find_column(row.value, columns.answer)) columns.answer_is_messages = answer->is_array();
  if (columns.answer.empty() && !columns.conversation)
    throw BadRow(row.place,
                 "the prompt (" + printable(columns.prompt) + ") is no conversation, and sft.completion_key " +
                     "does not name the column of what is to be said; the row has " + column_names(row.value));
  return columns;
}

/// Alpaca asks in two columns, the second of which many rows leave empty: each row is looked at by itself.
void refuse_half_a_question(const Row& row, const Columns& columns) {
  const char* const other = columns.prompt == "instruction" ? "input" : "instruction";
  if (columns.prompt_named || (columns.prompt != "instruction" && columns.prompt != "input")) return;
  const Json* value = find_column(row.value, other);
  if (value == nullptr || (value->is_string() ? trimmed(value->get_ref<const std::string&>()).empty() : value->empty()))
    return;
  throw BadRow(row.place,
               "the row has an instruction and an input (Alpaca's columns), and a prompt is one column; write both "
               "into one, or name one with sft.prompt_key (and sft.completion_key); data.bad_rows=skip passes over");
}

/// A text that says something, or a list of messages.
Json checked_part(Json value, const std::string& what, const std::string& place) {
  if (value.is_array()) {
    if (value.empty()) throw BadRow(place, what + " is an empty conversation");
    return checked_messages(std::move(value), what, place);
  }
  if (!value.is_string())
    throw BadRow(place, what + " is neither a text nor a list of messages but " + value.type_name());
  if (trimmed(value.get_ref<const std::string&>()).empty()) throw BadRow(place, what + " is empty");
  return value;
}

Example supervised_example(Row row, const Columns& columns) {
  Example example;
  example.place = row.place;
  const auto part = [&](const std::string& column, const std::string& key, const std::string& word) {
    return checked_part(required_column(row, column, columns.section, key), word + " (" + printable(column) + ")",
                        row.place);
  };
  refuse_half_a_question(row, columns);
  const bool alone = columns.answer.empty();
  example.prompt = part(columns.prompt, "prompt_key", alone ? "the conversation" : "the prompt");
  if (alone && !example.prompt.is_array())
    throw BadRow(row.place,
                 "the conversation (" + printable(columns.prompt) + ") is a text; wanted a list of messages");
  if (!alone) example.answer = part(columns.answer, "completion_key", "the completion");
  if (example.prompt.is_string()) refuse_written_conversation(example.prompt, "the prompt", row.place);
  // What a model is to say may well be JSON with a role and a content: who names the column says so.
  if (example.answer.is_string() && !columns.answer_required)
    refuse_written_conversation(
        example.answer, "the completion", row.place,
        "; sft.completion_key=" + columns.answer + " says that this is what the model is to say");
  if (!columns.prompt_named) refuse_parts_left_out(row.value, example.prompt, columns, row.place);
  return example;
}

std::string sentence(const Columns& columns, const std::string& text) {
  if (columns.answer.empty()) return "read as: " + columns.schema + ", from " + columns.prompt;
  return "read as: " + columns.schema + "; completion from " + columns.answer + ", prompt from " + columns.prompt +
         " (" +
         (columns.conversation         ? "a conversation"
          : columns.answer_is_messages ? "a text, as the user's message"
                                       : text) +
         ")";
}

}  // namespace

const RowReading kSupervisedRows = {recognise_supervised, supervised_example, sentence, "sft"};

}  // namespace keel
