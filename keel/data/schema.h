#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "keel/core/json.h"
#include "keel/data/data_options.h"
#include "keel/data/rows/row_file.h"

namespace keel {

/// What rows are for: prompts of RL, or conversations and completions to be imitated (SFT).
enum class RowKind { kPrompts, kSupervised };

/// A documented form of rows. Columns are paths: a.b is b in a.
struct Schema {
  std::string name;
  std::vector<std::string> prompts;  // the first that a row has
  std::vector<std::string> answers;  // the one that a row fills; in SFT the completion
  bool needs_answer = false;         // a row without any of `answers` has another form
};

/// The schemas of a kind, in the order in which they are tried.
const std::vector<Schema>& schemas(RowKind kind);

/// The columns of a file that are read, known from a row of it. Empty: none.
struct Columns {
  RowKind kind = RowKind::kPrompts;
  std::string schema;
  std::string prompt;
  std::vector<std::string> answers, sources;
  bool prompt_named = false, answer_named = false, source_named = false;  // by a key of the configuration
  bool answer_after_hashes = false;                                       // GSM8K: the result follows "####"
  bool whole_text = false;                                                // SFT: the prompt is a text, learned whole
  std::string form = "a text";                                            // of that row's prompt, for the sentence
  std::string answer, source;                                             // in the first row that has one
  std::vector<std::string> unseen = {};  // columns with texts that are neither prompt, answer nor source

  /// The section of the configuration that names files and columns.
  std::string section() const { return kind == RowKind::kSupervised ? "sft" : "data"; }
  std::string answer_key() const { return kind == RowKind::kSupervised ? "sft.completion_key" : "data.answer_key"; }

  /// Completes `answer`, `source` and `unseen` by one more row; `others` are its columns but the prompt.
  void add_row(const Json& others);

  /// "read as: verl; answer from reward_model.ground_truth, prompt from prompt (a conversation), ..."
  std::string sentence() const;
};

/// The columns of rows like this one; keys of the options come first. `text` is what the sentence calls prompts that
/// are texts. A BadRow where the row has no documented form.
Columns recognise(const Row& row, const DataOptions& options, RowKind kind = RowKind::kPrompts,
                  const std::string& text = "a text");

/// The columns of all rows of a file: what a row lacks is null, as in a table. Where there are more than a thousand the
/// names are data themselves, and every row keeps to its own.
class ColumnNames {
 public:
  void add(const Json& row);
  void complete(Json& row) const;

 private:
  std::vector<std::string> names_;
  std::unordered_set<std::string> known_;
};

/// The content of a row, before it is rendered.
struct Example {
  Json prompt;         // a string, or messages: a list of {role, content, ...}
  Json answer;         // null where the row has none; SFT: the completion, null where the prompt is all there is
  std::string source;  // empty where the row has none
  Json extra;          // all columns but that of the prompt
  Json tools = {};     // SFT: that the chat template is to show; null: none
  std::string place;
};

/// A BadRow where a column is missing or is not what it should be.
Example example_of(Row row, const Columns& columns);

/// The value of a column; "a.b" is b in a, unless a column has that very name. Null where there is none.
const Json* find_column(const Json& row, std::string_view path);

/// The first of the columns that holds something, else the first that is there.
std::string filled_column(const Json& row, const std::vector<std::string>& paths);

/// Up to 20 names, for errors.
std::string column_names(const Json& row);

}  // namespace keel
