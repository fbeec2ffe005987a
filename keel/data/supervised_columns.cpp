#include "keel/data/supervised_columns.h"

#include <map>

#include "keel/core/foreign_text.h"
#include "keel/core/json_reader.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

struct Pair {
  const char *prompt, *completion;
};

/// Under which names people keep what is to be imitated; the first that a row has is taken, and conversations before
/// all.
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

/// A text by itself is taken where nothing else is there. TRL, which does not know the columns beside it, would take
/// it.
bool is_text(const Row& row, const Pair& pair) {
  if (!has(row.value, "text") || !row.value["text"].is_string()) return false;
  const std::string prompt = pair.prompt;
  if (!prompt.empty() && prompt != "prompt")
    throw BadRow(row.place, "the row has a text beside " + prompt + " and " + pair.completion + "; sft.text_key=text " +
                                "learns the text alone, sft.prompt_key=" + prompt +
                                " and sft.completion_key=" + pair.completion + " what is asked and said");
  return prompt.empty();
}

Columns recognise_supervised(const Row& row, const DataOptions& options) {
  Columns columns{.schema = "the configured columns",
                  .prompt = options.prompt_key,
                  .answer = options.answer_key,
                  .source = "",
                  .answer_required = !options.answer_key.empty(),
                  .prompt_named = !options.prompt_key.empty(),
                  .section = "sft"};
  if (!options.text_key.empty()) {
    columns.prompt = options.text_key, columns.prompt_named = columns.whole_text = true;
  } else if (columns.prompt.empty() && columns.answer.empty()) {
    const Pair pair = best_pair(row.value);
    if (has(row.value, "messages") || has(row.value, "conversations"))
      columns.schema = "a conversation", columns.prompt = has(row.value, "messages") ? "messages" : "conversations";
    else if (is_text(row, pair))
      columns.schema = "a text", columns.prompt = "text", columns.whole_text = true;
    else
      columns.schema = "a prompt and its completion", columns.prompt = pair.prompt, columns.answer = pair.completion;
    if (columns.prompt.empty())
      throw BadRow(row.place, "the row has " + column_names(row.value) +
                                  ", and nothing that is known to be imitated: messages, prompt and completion, or " +
                                  "text; name its columns with sft.prompt_key and sft.completion_key, or " +
                                  "sft.text_key, data.bad_rows=skip passes over");
  } else if (columns.prompt.empty()) {
    for (const auto& [prompt, completion] : kPairs)
      if (columns.prompt.empty() && has(row.value, prompt)) columns.prompt = prompt;
    if (columns.prompt.empty())
      throw BadRow(row.place, "sft.completion_key names " + printable(columns.answer) + ", but no column is known to " +
                                  "be the prompt; the row has " + column_names(row.value) +
                                  ". Set sft.prompt_key, data.bad_rows=skip passes over");
  }
  if (columns.whole_text) return columns;
  columns.conversation = required_column(row, columns.prompt, columns.section, "prompt_key").is_array();
  if (const Json* answer = find_column(row.value, columns.answer)) columns.answer_is_messages = answer->is_array();
  if (columns.answer.empty() && !columns.conversation)
    throw BadRow(row.place, "the prompt (" + printable(columns.prompt) +
                                ") is no conversation, and sft.completion_key " +
                                "does not name the column of what is to be said (sft.text_key=" + columns.prompt +
                                " learns it whole); the row has " + column_names(row.value));
  columns.note_unseen(row.value);
  return columns;
}

/// ShareGPT's messages have from and value, and words of its own for two of the roles.
Json with_roles(Json messages, const std::string& what, const std::string& place) {
  static const std::map<std::string, std::string> kRoles = {{"human", "user"},    {"gpt", "assistant"},
                                                            {"user", "user"},     {"assistant", "assistant"},
                                                            {"system", "system"}, {"tool", "tool"}};
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("from") || !message.contains("value") || message.contains("role"))
      continue;
    const Json from = message["from"];
    const auto role = from.is_string() ? kRoles.find(from.get<std::string>()) : kRoles.end();
    if (role == kRoles.end())
      throw BadRow(place, what + " has a message from " + printable(from.dump()) +
                              "; known are human, gpt, user, assistant, system and tool: write role and content, as " +
                              "the model's chat template knows them");
    message["role"] = role->second;
    message["content"] = message["value"];
    message.erase("from");
    message.erase("value");
  }
  return messages;
}

/// A call as OpenAI's messages had it before tool_calls, with its result in a message of the role function.
Json with_tool_calls(Json messages, const std::string& what, const std::string& place) {
  for (Json& message : messages) {
    if (!message.is_object()) continue;
    if (message.contains("function_call") && !message["function_call"].is_null()) {
      if (message.contains("tool_calls") && !message["tool_calls"].is_null())
        throw BadRow(place, what + " has a message with function_call and tool_calls; keep one of them");
      message["tool_calls"] = Json::array({{{"type", "function"}, {"function", message["function_call"]}}});
      message.erase("function_call");
    }
    if (message.contains("role") && message["role"] == "function") message["role"] = "tool";
  }
  return messages;
}

/// A text that says something, or a list of messages.
Json checked_part(Json value, const std::string& what, const std::string& place) {
  if (value.is_array()) {
    if (value.empty()) throw BadRow(place, what + " is an empty conversation");
    value = with_tool_calls(with_roles(std::move(value), what, place), what, place);
    return checked_messages(std::move(value), what, place, Calls::kAllowed);
  }
  if (!value.is_string())
    throw BadRow(place, what + " is neither a text nor a list of messages but " + value.type_name());
  if (trimmed(value.get_ref<const std::string&>()).empty()) throw BadRow(place, what + " is empty");
  return value;
}

/// A column of functions that may be called: a list, also one written as a text, as TRL's data sets have it; null where
/// there is none.
Json list_of_functions(const Row& row, const char* column) {
  if (!has(row.value, column)) return nullptr;
  Json list = row.value[column];
  if (list.is_string()) {
    try {
      list = parse_json(list.get<std::string>());
    } catch (const std::exception&) {
      throw BadRow(row.place, std::string("the ") + column + " are a text that is no JSON; wanted a list of functions");
    }
  }
  if (list.is_null() || (list.is_array() && list.empty())) return nullptr;
  if (!list.is_array()) throw BadRow(row.place, std::string("the ") + column + " are no list but " + list.type_name());
  return list;
}

/// What the row tells the template of functions that may be called: `tools`, or what OpenAI's files had before them,
/// `functions`.
Json tools_of(const Row& row) {
  const Json tools = list_of_functions(row, "tools");
  Json functions = list_of_functions(row, "functions");
  if (functions.is_null()) return tools;
  if (!tools.is_null()) throw BadRow(row.place, "the row has tools and functions; keep one of them");
  for (Json& function : functions) {
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string())
      throw BadRow(row.place, "the functions have " + printable(function.dump()) +
                                  "; wanted objects with a name, a description and parameters, as OpenAI's files had " +
                                  "them, or write tools");
    function = {{"type", "function"}, {"function", function}};
  }
  return functions;
}

/// TRL gives the template more words by row.
void refuse_template_words(const Row& row) {
  const Json* words = find_column(row.value, "chat_template_kwargs");
  if (words != nullptr && !words->is_null() && !words->empty())
    throw BadRow(
        row.place,
        "the row has chat_template_kwargs, and the chat template is told the same of all rows; remove the column, " +
            std::string("and set data.template_words, or write prompt and completion as texts"));
}

Example supervised_example(Row row, const Columns& columns) {
  Example example;
  example.place = row.place;
  const auto part = [&](const std::string& column, const std::string& key, const std::string& word) {
    return checked_part(required_column(row, column, columns.section, key), word + " (" + printable(column) + ")",
                        row.place);
  };
  if (columns.whole_text) {
    example.prompt = part(columns.prompt, "text_key", "the text");
    if (!example.prompt.is_string())
      throw BadRow(row.place, "the text (" + printable(columns.prompt) +
                                  ") is a list; sft.prompt_key=" + columns.prompt + " reads it as a conversation");
    return example;
  }
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
  if (!columns.answer_required && is_written_nothing(example.answer))
    throw BadRow(row.place, "the completion is " + example.answer.dump() + ", which is what a table wrote for none; " +
                                "sft.completion_key=" + columns.answer + " says that it is meant");
  if (example.prompt.is_array() || example.answer.is_array()) {
    refuse_template_words(row);
    example.tools = tools_of(row);
    row.value.erase("tools");
    row.value.erase("functions");
  }
  if (!columns.prompt_named) refuse_parts_left_out(row.value, example.prompt, columns, row.place);
  return example;
}

std::string sentence(const Columns& columns, const std::string& text) {
  if (columns.whole_text) return "read as: a text, learned whole and as it is, from " + columns.prompt;
  if (columns.answer.empty())
    return "read as: " + columns.schema + ", from " + columns.prompt + columns.unseen_sentence();
  return "read as: " + columns.schema + "; completion from " + columns.answer + ", prompt from " + columns.prompt +
         " (" +
         (columns.conversation         ? "a conversation"
          : columns.answer_is_messages ? "a text, as the user's message"
                                       : text) +
         ")" + columns.unseen_sentence();
}

}  // namespace

const RowReading kSupervisedRows = {recognise_supervised, supervised_example, sentence, "sft"};

}  // namespace keel
