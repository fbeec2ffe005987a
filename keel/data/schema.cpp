#include "keel/data/schema.h"

#include <algorithm>

#include "keel/core/foreign_text.h"
#include "keel/core/strings.h"
#include "keel/data/question_parts.h"

namespace keel {
namespace {

constexpr std::string_view kHashes = "####";
constexpr size_t kMaxColumns = 1000;
constexpr size_t kMostFields = 1000;  // of a message; each is looked for among all

/// Where a row of no known program keeps its answer.
const std::vector<std::string> kAnswers = {"ground_truth", "answer", "solution", "label", "Answer", "Solution"};
const std::vector<std::string> kSources = {"data_source", "dataset", "source"};

enum class Nulls { kAbsent, kPresent };

std::string first_present(const Json& row, const std::vector<std::string>& paths, Nulls nulls = Nulls::kAbsent) {
  for (const std::string& path : paths)
    if (const Json* value = find_column(row, path); value && (nulls == Nulls::kPresent || !value->is_null()))
      return path;
  return "";
}

/// The first that holds something, else the first that is there.
std::string best_present(const Json& row, const std::vector<std::string>& paths) {
  const std::string filled = first_present(row, paths);
  return filled.empty() ? first_present(row, paths, Nulls::kPresent) : filled;
}

/// A label may be the answer, or the kind of question beside it: who has both says which.
void refuse_two_answers(const Json& row, const Columns& columns, const std::string& place) {
  const Json* label = columns.answer == "label" ? find_column(row, "label") : nullptr;
  if (label == nullptr || label->is_null()) return;
  std::vector<std::string> others = kAnswers;
  std::erase(others, "label");
  const std::string other = first_present(row, others);
  const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  if (other.empty() || text(*find_column(row, other)) == text(*label)) return;
  throw BadRow(place, "the row has label and " + other + ", and either may be the answer; data.answer_key=" + other +
                          " or data.answer_key=label says which, data.bad_rows=skip passes over");
}

bool has_hashes(const Json* answer) {
  return answer != nullptr && answer->is_string() &&
         answer->get_ref<const std::string&>().find(kHashes) != std::string::npos;
}

bool fits(const Json& row, const Schema& schema, Nulls nulls) {
  return std::all_of(schema.marks.begin(), schema.marks.end(),
                     [&](const std::string& mark) { return find_column(row, mark) != nullptr; }) &&
         !first_present(row, schema.prompts, nulls).empty() &&
         (!schema.answer_after_hashes || has_hashes(find_column(row, schema.answers.front())));
}

}  // namespace

std::string column_names(const Json& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) names.push_back(printable(name));
  if (names.size() > 20) names.resize(20);
  return names.empty() ? "no columns at all" : joined(names);
}

namespace {

/// "...\n#### 1,234" is "1234", as everyone who prepares GSM8K takes it.
std::string answer_after_hashes(const Json& value, const std::string& place) {
  if (!has_hashes(&value)) throw BadRow(place, "the answer has no \"####\" with the result behind it");
  const std::string& text = value.get_ref<const std::string&>();
  std::string answer(trimmed(std::string_view(text).substr(text.rfind(kHashes) + kHashes.size())));
  std::erase(answer, ',');
  return answer;
}

[[noreturn]] void refuse_message(const std::string& place, size_t index, const std::string& of,
                                 const std::string& what) {
  throw BadRow(place, "message " + std::to_string(index + 1) + " of " + of + " " + what);
}

/// A message without the fields that are null: a Parquet file gives every message the fields of all.
Json checked_message(Json message, size_t index, const std::string& of, const std::string& place, Calls calls) {
  if (!message.is_object())
    refuse_message(place, index, of,
                   std::string("is no object but ") + message.type_name() +
                       (message.is_string() ? "; a file has an object for each row, not a list for each column" : ""));
  if (message.size() > kMostFields)
    refuse_message(
        place, index, of,
        "has " + std::to_string(message.size()) + " fields; at most " + std::to_string(kMostFields) + " are read");
  for (auto field = message.begin(); field != message.end();) field = field->is_null() ? message.erase(field) : ++field;
  const bool calls_functions = calls == Calls::kAllowed && message.contains("tool_calls");
  for (const char* field : {"role", "content"}) {
    if (calls_functions && field == std::string_view("content") && !message.contains(field)) continue;
    if (!message.contains(field)) refuse_message(place, index, of, std::string("has no ") + field);
    if (!message[field].is_string())
      refuse_message(place, index, of,
                     std::string("has a ") + field + " that is no text but " + message[field].type_name());
  }
  return message;
}

}  // namespace

Json checked_messages(Json messages, const std::string& what, const std::string& place, Calls calls) {
  for (size_t i = 0; i < messages.size(); ++i)
    messages[i] = checked_message(std::move(messages[i]), i, what, place, calls);
  return messages;
}

std::string message_content(const Json& message) {
  const auto content = message.find("content");
  return content == message.end() ? "" : content->get<std::string>();
}

bool is_written_nothing(const Json& value) {
  return value == "nan" || value == "NaN" || value == "None" || value == "<NA>";
}

namespace {

Json checked_conversation(Json messages, bool drop_reply, const std::string& place) {
  messages = checked_messages(std::move(messages), "the prompt", place);
  const auto ends_with_reply = [&] { return !messages.empty() && messages.back()["role"] == "assistant"; };
  if (drop_reply && ends_with_reply()) messages.erase(messages.size() - 1);
  if (messages.empty()) throw BadRow(place, "the prompt is an empty conversation");
  if (ends_with_reply()) throw BadRow(place, "the prompt ends with the assistant's words; it must end with the user's");
  return messages;
}

/// Whether a text is a conversation that a program wrote down, as JSON or as Python shows it: what becomes of one in a
/// CSV file.
bool is_written_conversation(std::string_view text) {
  const auto names = [&](const char* field) {
    return text.find("\"" + std::string(field) + "\"") != std::string_view::npos ||
           text.find("'" + std::string(field) + "'") != std::string_view::npos;
  };
  std::string bare(text);
  std::erase_if(bare, [](unsigned char c) { return c <= ' '; });
  const bool of_numpy = bare.starts_with("array([{") && bare.ends_with(')');
  const bool list = bare.starts_with("[{") && bare.ends_with("}]"),
             message = bare.starts_with('{') && bare.ends_with('}');
  return (of_numpy || list || message) && names("role") && names("content");
}

}  // namespace

void refuse_written_conversation(const std::string& text, const std::string& what, const std::string& place,
                                 const std::string& way_out) {
  if (is_written_conversation(trimmed(text)))
    throw BadRow(place, what + " is a conversation written as a text, brackets and all; " +
                            "write JSON lines or Parquet, where a list of messages stays one" + way_out);
}

namespace {

Json checked_prompt(Json prompt, const Columns& columns, const std::string& place) {
  // Where the column is the whole conversation, its last reply is what was once the target.
  if (prompt.is_array()) return checked_conversation(std::move(prompt), columns.prompt == "messages", place);
  if (!prompt.is_string())
    throw BadRow(place, "the prompt (" + columns.prompt + ") is neither a text nor a list of messages but " +
                            prompt.type_name());
  const std::string_view text = trimmed(prompt.get_ref<const std::string&>());
  if (text.empty()) throw BadRow(place, "the prompt is empty");
  refuse_written_conversation(prompt, "the prompt (" + columns.prompt + ")", place);
  return prompt;
}

}  // namespace

void refuse_parts_left_out(const Json& row, const Json& prompt, const Columns& columns, const std::string& place) {
  const std::optional<QuestionPart> part = part_left_out(row, prompt, {columns.prompt, columns.answer});
  if (!part) return;
  throw BadRow(
      place, "the row has " + printable(part->column) + " beside " + printable(columns.prompt) +
                 (part->is_text ? ", and a prompt is one column: the model would never see it; write both into one"
                                : ", and Keel reads texts only") +
                 "; " + columns.section + ".prompt_key=" + columns.prompt +
                 (columns.section == "sft" && !columns.answer.empty() ? " sft.completion_key=" + columns.answer : "") +
                 " says that this alone is the prompt, data.bad_rows=skip passes over");
}

void Columns::note_unseen(const Json& row) {
  Json said = Json::array();
  for (const std::string& path : {prompt, answer})
    if (const Json* value = find_column(row, path)) said.push_back(*value);
  unseen = unseen_texts(row, said, {prompt, answer, source});
}

namespace {

/// Files whose rows are there, but not as rows.
void refuse_other_shapes(const Row& row) {
  for (const auto& [name, value] : row.value.items())
    if (value.is_array() && (row.value.size() == 1 || (!value.empty() && value[0].is_object())))
      throw BadRow(row.place,
                   "the row has a list, " + printable(name) +
                       ": is the file an object that has the rows in it? Save the list alone, or JSON lines; " +
                       "where it is a conversation, name it with data.prompt_key");
  if (row.value.size() != 1) return;
  const std::string name = row.value.begin().key();
  for (const char* separator : {";", "\t", "|"})
    if (name.find(separator) != std::string::npos)
      throw BadRow(row.place, "the only column is " + printable(name) + ": is the file separated by " +
                                  printable(separator) + "? Columns of CSV are separated by commas; save it so");
}

}  // namespace

const Json& required_column(const Row& row, const std::string& path, const std::string& section,
                            const std::string& key) {
  const Json* value = find_column(row.value, path);
  const bool of_parquet = row.place.find(", row group ") != std::string::npos;
  const std::string null = of_parquet ? " is null, or bytes that are no text" : " is null";
  if (value == nullptr || value->is_null())
    throw BadRow(row.place, "column " + printable(path) + (value ? null : " is missing") + "; the row has " +
                                column_names(row.value) + ". " + section + "." + key +
                                " names another, data.bad_rows=skip passes over");
  return *value;
}

namespace {

/// open-instruct writes ["math"] for "math".
std::string source_of(const Json& value) {
  if (value.is_array() && value.size() == 1 && value[0].is_string()) return value[0].get<std::string>();
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

const std::vector<Schema>& schema_table() {
  static const std::vector<Schema> table = {
      {"verl", {"reward_model.ground_truth"}, {"prompt"}, {"reward_model.ground_truth"}, {"data_source"}},
      {"SkyRL", {"reward_spec.ground_truth"}, {"prompt"}, {"reward_spec.ground_truth"}, {"data_source"}},
      {"open-instruct", {"ground_truth"}, {"messages"}, {"ground_truth"}, {"dataset"}},
      {"slime", {"label"}, {"prompt"}, {"label"}, kSources},
      {"GSM8K", {}, {"question"}, {"answer"}, kSources, /*answer_after_hashes=*/true},
      {"TRL", {}, {"prompt"}, kAnswers, kSources},
      {"problem and answer", {}, {"problem", "question", "Problem", "Question"}, kAnswers, kSources},
      {"conversation", {}, {"messages"}, kAnswers, kSources},
      {"OpenRLHF", {}, {"input"}, {"label", "answer"}, {"datasource"}},
  };
  return table;
}

const Json* find_column(const Json& row, std::string_view path) {
  if (!row.is_object()) return nullptr;
  if (const auto whole = row.find(path); whole != row.end()) return &*whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto outer = row.find(path.substr(0, dot));
  return outer == row.end() ? nullptr : find_column(*outer, path.substr(dot + 1));
}

Columns recognise(const Row& row, const DataOptions& options) {
  const auto& table = schema_table();
  const auto first_that_fits = [&](Nulls nulls) {
    return std::find_if(table.begin(), table.end(), [&](const Schema& s) { return fits(row.value, s, nulls); });
  };
  auto schema = first_that_fits(Nulls::kAbsent);
  if (schema == table.end()) schema = first_that_fits(Nulls::kPresent);  // whose prompt is null, which is said below
  Columns columns;
  if (schema != table.end()) {
    columns = {schema->name, best_present(row.value, schema->prompts), best_present(row.value, schema->answers),
               best_present(row.value, schema->sources), schema->answer_after_hashes};
  } else if (options.prompt_key.empty()) {
    refuse_other_shapes(row);
    throw BadRow(row.place, "no known schema: the row has " + column_names(row.value) +
                                "; set data.prompt_key to the column of the prompt, and data.answer_key");
  } else {
    columns = {"the configured columns", "", best_present(row.value, kAnswers), best_present(row.value, kSources)};
  }
  if (!options.prompt_key.empty()) columns.prompt = options.prompt_key, columns.prompt_named = true;
  if (!options.answer_key.empty())
    columns.answer = options.answer_key, columns.answer_after_hashes = false, columns.answer_required = true;
  if (!options.source_key.empty()) columns.source = options.source_key, columns.source_required = true;
  columns.conversation = required_column(row, columns.prompt, columns.section, "prompt_key").is_array();
  const Json* words = find_column(row.value, "chat_template_kwargs");
  columns.has_template_words = words != nullptr && !words->is_null();
  columns.note_unseen(row.value);
  return columns;
}

void Columns::complete(const Columns& later) {
  if (later.prompt != prompt) return;
  if (answer.empty()) answer = later.answer, answer_after_hashes = later.answer_after_hashes;
  if (source.empty()) source = later.source;
}

std::string Columns::sentence(const std::string& text) const {
  std::string sentence = "read as: " + schema;
  sentence += answer.empty() ? "; no answer" : "; answer from " + answer;
  if (answer_after_hashes) sentence += " (behind ####)";
  sentence += prompt.empty() ? ", no prompt"
                             : ", prompt from " + prompt + " (" + (conversation ? "a conversation" : text) + ")";
  if (!source.empty()) sentence += ", source from " + source;
  if (has_template_words) sentence += "; column chat_template_kwargs is not read: data.template_words is for all rows";
  return sentence + unseen_sentence();
}

std::string Columns::unseen_sentence() const {
  constexpr size_t kNamed = 6;
  if (unseen.empty()) return "";
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(unseen.size(), kNamed); ++i) names.push_back(printable(unseen[i]));
  return "; texts that the model is not shown: " + joined(names) + (unseen.size() > kNamed ? ", ..." : "");
}

void ColumnNames::add(const Json& row) {
  if (names_.size() > kMaxColumns) return;
  for (const auto& [name, value] : row.items())
    if (known_.insert(name).second) names_.push_back(name);
}

void ColumnNames::complete(Json& row) const {
  if (names_.size() > kMaxColumns) return;
  for (const std::string& name : names_)
    if (!row.contains(name)) row[name] = nullptr;
}

Example example_of(Row row, const Columns& columns) {
  Example example;
  example.place = row.place;
  example.prompt =
      checked_prompt(required_column(row, columns.prompt, columns.section, "prompt_key"), columns, row.place);
  if (!columns.prompt_named) refuse_parts_left_out(row.value, example.prompt, columns, row.place);
  if (columns.answer_required)
    required_column(row, columns.answer, columns.section, "answer_key");
  else
    refuse_two_answers(row.value, columns, row.place);
  if (const Json* answer = find_column(row.value, columns.answer); answer != nullptr && !answer->is_null())
    example.answer = columns.answer_after_hashes ? Json(answer_after_hashes(*answer, row.place)) : *answer;
  if (columns.source_required) required_column(row, columns.source, columns.section, "source_key");
  if (const Json* source = find_column(row.value, columns.source); source != nullptr && !source->is_null())
    example.source = source_of(*source);
  example.extra = std::move(row.value);
  example.extra.erase(columns.prompt);
  return example;
}

const RowReading kPromptRows = {recognise, example_of,
                                [](const Columns& columns, const std::string& text) { return columns.sentence(text); }};

}  // namespace keel
