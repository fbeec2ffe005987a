#include "cli/reward_rows.h"

#include <algorithm>
#include <filesystem>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/untrusted_text.h"
#include "keel/data/rows/row_file.h"

namespace keel::cli {
namespace {

constexpr const char* kTokenIds = "completion_ids";
constexpr const char* kGold = "gold";        // the reference answer in files of `keel eval --samples`
constexpr const char* kNoPrompt = "(none)";  // replaces a missing prompt

/// Names of the completion column: Keel and TRL, verl, OpenRLHF.
constexpr const char* kCompletions[] = {"completion", "response", "responses", "output"};

[[noreturn]] void refuse(const std::string& location, const char* key, const Json& value, const char* expected) {
  fail(ExitCode::kBadInput, location, ": \"", key, "\" is ", printable(json_line(value)), "; expected ", expected);
}

/// The text of an assistant message; std::nullopt for other values.
std::optional<std::string> assistant_text(const Json& message) {
  if (!message.is_object() || message.value("role", Json()) != "assistant") return std::nullopt;
  const Json content = message.value("content", Json());
  return content.is_string() ? std::optional(content.get<std::string>()) : std::nullopt;
}

struct Completion {
  std::string column, text;
};

/// Reads a string, a list of one string or, as in TRL's conversations, a list of one message.
Completion read_completion(const Json& row, const std::string& location) {
  for (const char* column : kCompletions) {
    const auto found = row.find(column);
    if (found == row.end()) continue;
    const Json& value = found->is_array() && found->size() == 1 ? (*found)[0] : *found;
    if (value.is_string()) return {column, value.get<std::string>()};
    if (const std::optional<std::string> reply = assistant_text(value)) return {column, *reply};
    refuse(location, column, *found, "a string, or a list of one assistant message");
  }
  const auto messages = row.find("messages");
  if (messages != row.end() && messages->is_array() && !messages->empty())
    if (const std::optional<std::string> reply = assistant_text(messages->back())) return {"", *reply};
  fail(ExitCode::kBadInput, location, ": the row has no \"completion\"; add it, as a string");
}

std::optional<std::vector<int32_t>> read_token_ids(const Json& row, const std::string& location) {
  if (!row.contains(kTokenIds) || row[kTokenIds].is_null()) return std::nullopt;
  const Json& ids = row[kTokenIds];
  const auto is_token = [](const Json& id) { return id.is_number_unsigned() && id <= INT32_MAX; };
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_token))
    refuse(location, kTokenIds, ids, "a list of token ids");
  return ids.get<std::vector<int32_t>>();
}

/// Returns whether a completion ended with a stop token or string (true if the row has no finish reason).
bool read_stopped(const Json& row, const std::string& location) {
  for (const char* key : {"finish", "finish_reason"}) {
    const auto found = row.find(key);
    if (found == row.end() || found->is_null()) continue;
    if (!found->is_string()) refuse(location, key, *found, "a string, such as stop or length");
    return *found != "length";
  }
  return true;
}

/// Returns whether a row is from `keel eval --samples`, whose "answer" is the one in the completion.
bool is_eval_sample(const Json& row) { return row.contains("prompt_id") && row.contains("solved"); }

bool has_prompt(const Json& row) {
  for (const Schema& schema : schemas(RowKind::kPrompts))
    for (const std::string& column : schema.prompts)
      if (const auto found = row.find(column); found != row.end() && *found != "") return true;
  return false;
}

}  // namespace

RewardRows::RewardRows(const std::string& path, DataOptions keys) : keys_(std::move(keys)) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  bool any_prompt = !keys_.prompt_key.empty();
  const auto on_row = [&](const Row& row) {
    any_prompt = any_prompt || has_prompt(row.value);
    if (!columns_) columns_ = find_columns(row.value, row.place);
    names_.add(row.value);
  };
  const RowFile file = RowFile::open(path);
  if (!file.is_json_lines())
    fail(ExitCode::kBadInput, path, ": is not a JSONL file, the only format of keel reward. ",
         "Fix: for CSV, python3 -c 'import csv, json, sys; [print(json.dumps(r)) for r in csv.DictReader(",
         "sys.stdin)]' < FILE converts it; for a JSON list, jq -c '.[]' FILE");
  file.for_each(on_row, [](const BadRow&) {});  // invalid rows are reported by read()
  const auto is_default = [](const std::string& column, const char* name) { return column.empty() || column == name; };
  if (columns_ && !(columns_->prompt == "prompt" && is_default(columns_->answer, "answer") &&
                    is_default(columns_->source, "source"))) {
    Columns noted = *columns_;
    if (!any_prompt) noted.prompt.clear();
    note_ = noted.note();
  }
}

Columns RewardRows::find_columns(const Json& row, const std::string& location) const {
  Row row_with_prompt{row, location};
  if (keys_.prompt_key.empty() && !has_prompt(row)) row_with_prompt.value["prompt"] = kNoPrompt;
  try {
    Columns columns = detect_columns(row_with_prompt, keys_);
    const bool has_gold = row.contains(kGold) && (columns.answer.empty() || is_eval_sample(row));
    if (keys_.answer_key.empty() && has_gold) {
      columns.answer = kGold;
      columns.answers = {kGold};
      columns.answer_after_hashes = false;
    }
    return columns;
  } catch (const BadRow& bad) {
    fail(ExitCode::kBadInput, bad.what());
  }
}

RewardRow RewardRows::read(const Json& row, uint64_t id, const std::string& location) const {
  const Completion completion = read_completion(row, location);
  std::optional<std::vector<int32_t>> tokens = read_token_ids(row, location);
  const bool stopped = read_stopped(row, location);
  Columns columns = columns_ ? *columns_ : find_columns(row, location);
  const bool lacks_prompt = keys_.prompt_key.empty() && !has_prompt(row);
  Row row_with_prompt{row, location};
  if (lacks_prompt) row_with_prompt.value[columns.prompt] = kNoPrompt;
  Example example;
  try {
    example = make_example(std::move(row_with_prompt), columns);
  } catch (const BadRow& bad) {
    fail(ExitCode::kBadInput, bad.what());
  }
  RewardRow result{.prompt = {.id = id,
                              .tokens = {},
                              .text = "",
                              .source = std::move(example.source),
                              .answer = std::move(example.answer),
                              .extra = std::move(example.extra)},
                   .completion = completion.text,
                   .tokens = std::move(tokens),
                   .stopped = stopped};
  if (example.prompt.is_array())
    result.prompt.messages = std::move(example.prompt);
  else if (!lacks_prompt)
    result.prompt.text = example.prompt;
  names_.complete(result.prompt.extra);
  for (const std::string& known_column : {columns.prompt, completion.column, std::string(kTokenIds)})
    result.prompt.extra.erase(known_column);
  if (columns.answer == kGold) result.prompt.extra.erase("answer");  // the model's answer
  return result;
}

}  // namespace keel::cli
