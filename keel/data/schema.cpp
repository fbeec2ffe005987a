#include "keel/data/schema.h"

#include <algorithm>

#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

constexpr size_t kMaxColumns = 1000;

/// Source columns of all schemas; verl rows have the first.
const std::vector<std::string> kSources = {"data_source", "source"};

bool has_any(const Json& row, const std::vector<std::string>& paths) { return !filled_column(row, paths).empty(); }

/// With `prompt_named`, the prompt column need not match.
const Schema* find_schema(const Json& row, RowKind kind, bool prompt_named = false) {
  const auto& table = schemas(kind);
  const auto found = std::find_if(table.begin(), table.end(), [&](const Schema& schema) {
    const bool has_prompt = has_any(row, schema.prompts) || (prompt_named && schema.needs_answer);
    return has_prompt && (!schema.needs_answer || has_any(row, schema.answers));
  });
  return found == table.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_unknown(const Row& row, RowKind kind) {
  const bool supervised = kind == RowKind::kSupervised;
  throw BadRow(row.place, "no known schema: the row has " + column_names(row.value) +
                              (supervised ? " (expected messages, or prompt and completion). Fix: set sft.prompt_key "
                                            "and sft.completion_key, or sft.text_key, to its columns"
                                          : " (expected prompt, question or problem). Fix: set data.prompt_key to the "
                                            "column of the prompt, and data.answer_key to that of the answer") +
                              "; data.bad_rows=skip skips it");
}

void choose_supervised_columns(Columns& columns, const Row& row, const DataOptions& options) {
  if (!options.text_key.empty()) {
    columns.prompt = options.text_key;
    columns.whole_text = columns.prompt_named = true;
  } else if (!options.prompt_key.empty() || !options.answer_key.empty()) {
    columns.prompt_named = !options.prompt_key.empty();
    columns.answer_named = !options.answer_key.empty();
    columns.prompt = columns.prompt_named ? options.prompt_key : "prompt";
    if (columns.answer_named) columns.answers = {options.answer_key};
  } else {
    const Schema* schema = find_schema(row.value, RowKind::kSupervised);
    if (schema == nullptr) refuse_unknown(row, RowKind::kSupervised);
    columns.schema = schema->name, columns.prompt = schema->prompts[0], columns.answers = schema->answers;
  }
}

void choose_prompt_columns(Columns& columns, const Row& row, const DataOptions& options) {
  columns.prompt_named = !options.prompt_key.empty();
  const Schema* schema = find_schema(row.value, RowKind::kPrompts, columns.prompt_named);
  columns.answer_named = !options.answer_key.empty();
  columns.source_named = !options.source_key.empty();
  if (schema == nullptr && !columns.prompt_named) refuse_unknown(row, RowKind::kPrompts);
  if (schema != nullptr) columns.schema = schema->name;
  columns.prompt = columns.prompt_named ? options.prompt_key : filled_column(row.value, schema->prompts);
  const Schema& answer_schema = schema != nullptr ? *schema : schemas(RowKind::kPrompts)[1];  // TRL's
  columns.answers = columns.answer_named ? std::vector{options.answer_key} : answer_schema.answers;
  columns.sources = columns.source_named ? std::vector{options.source_key} : kSources;
  const Json* answer = find_column(row.value, "answer");
  columns.answer_after_hashes = !columns.answer_named && columns.schema == "question and answer" && answer != nullptr &&
                                answer->is_string() &&
                                answer->get_ref<const std::string&>().find("####") != std::string::npos;
}

bool has_text(const Json& value) {
  if (value.is_string()) return !trimmed(value.get_ref<const std::string&>()).empty();
  return value.is_structured() && std::any_of(value.begin(), value.end(), has_text);
}

}  // namespace

const std::vector<Schema>& schemas(RowKind kind) {
  static const std::vector<Schema> prompts = {
      {"verl", {"prompt"}, {"reward_model.ground_truth"}, /*needs_answer=*/true},
      {"TRL", {"prompt"}, {"solution", "answer", "ground_truth"}},
      {"question and answer", {"question", "problem"}, {"answer", "solution"}},
  };
  static const std::vector<Schema> supervised = {
      {"messages", {"messages"}, {}},
      {"prompt and completion", {"prompt"}, {"completion"}, /*needs_answer=*/true},
  };
  return kind == RowKind::kSupervised ? supervised : prompts;
}

const Json* find_column(const Json& row, std::string_view path) {
  if (!row.is_object()) return nullptr;
  if (const auto whole = row.find(path); whole != row.end()) return &*whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto outer = row.find(path.substr(0, dot));
  return outer == row.end() ? nullptr : find_column(*outer, path.substr(dot + 1));
}

std::string filled_column(const Json& row, const std::vector<std::string>& paths) {
  std::string present;
  for (const std::string& path : paths) {
    const Json* value = find_column(row, path);
    if (value != nullptr && !value->is_null()) return path;
    if (value != nullptr && present.empty()) present = path;
  }
  return present;
}

std::string column_names(const Json& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) names.push_back(printable(name));
  if (names.size() > 20) names.resize(20);
  return names.empty() ? "no columns" : joined(names);
}

Columns detect_columns(const Row& row, const DataOptions& options, RowKind kind, const std::string& text) {
  Columns columns;
  columns.kind = kind, columns.schema = "the configured columns";
  if (kind == RowKind::kSupervised)
    choose_supervised_columns(columns, row, options);
  else
    choose_prompt_columns(columns, row, options);
  columns.answer = filled_column(row.value, columns.answers);
  columns.source = filled_column(row.value, columns.sources);
  const Json *prompt = find_column(row.value, columns.prompt), *answer = find_column(row.value, columns.answer);
  const bool is_reply = kind == RowKind::kSupervised && answer != nullptr && answer->is_array();
  const std::string form = is_reply ? "a text, as the user's message" : text;
  columns.form = prompt != nullptr && prompt->is_array() ? "a conversation" : form;
  return columns;
}

void Columns::add_row(const Json& others) {
  if (answer.empty()) answer = filled_column(others, answers);
  if (source.empty()) source = filled_column(others, sources);
  std::vector<std::string> used = answers;
  used.insert(used.end(), sources.begin(), sources.end());
  for (const auto& [name, value] : others.items()) {
    const auto contains_path = [&, &column = name](const std::string& path) {
      return path == column || path.starts_with(column + ".");
    };
    if (std::none_of(used.begin(), used.end(), contains_path) && std::ranges::count(unused, name) == 0 &&
        has_text(value))
      unused.push_back(name);
    if (unused.size() >= kMaxColumns) return;
  }
}

std::string Columns::note() const {
  const bool supervised = kind == RowKind::kSupervised;
  std::string note = "read as: ";
  if (supervised && answers.empty()) {
    note += (whole_text ? "a text, trained on as a whole, from " : "a conversation, from ") + prompt;
  } else {
    note += schema + "; ";
    note += answer.empty() ? "no answer" : (supervised ? "completion from " : "answer from ") + answer;
    if (answer_after_hashes) note += " (after ####)";
    note += prompt.empty() ? ", no prompt" : ", prompt from " + prompt + " (" + form + ")";
    if (!source.empty()) note += ", source from " + source;
  }
  std::vector<std::string> names;
  for (const std::string& name : unused) names.push_back(printable(name));
  return names.empty() ? note : note + "; unused text columns: " + joined(names);
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

}  // namespace keel
