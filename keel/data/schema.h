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

/// The use of rows: prompts for RL, or conversations and completions for SFT.
enum class RowKind { kPrompts, kSupervised };

/// A documented row format. Columns are paths: a.b is the field b of column a.
struct Schema {
  std::string name;
  std::vector<std::string> prompts;  // candidates; the first present one is used
  std::vector<std::string> answers;  // candidates; the first non-null one is used (SFT: the completion)
  bool needs_answer = false;         // a row without any of `answers` does not match
};

/// The schemas of a kind, in the order of detection.
const std::vector<Schema>& schemas(RowKind kind);

/// The columns that are read from a file, detected from one of its rows. Empty: none.
struct Columns {
  RowKind kind = RowKind::kPrompts;
  std::string schema;
  std::string prompt;
  std::vector<std::string> answers, sources;
  bool prompt_named = false, answer_named = false, source_named = false;  // set by the configuration
  bool answer_after_hashes = false;                                       // GSM8K: the answer follows "####"
  bool whole_text = false;               // SFT: trains on the whole text of the prompt column
  std::string form = "a text";           // form of the prompt, for the note
  std::string answer, source;            // of the first row that has them
  std::vector<std::string> unused = {};  // text columns that are neither prompt, answer nor source

  /// The section of the configuration that names files and columns.
  std::string section() const { return kind == RowKind::kSupervised ? "sft" : "data"; }
  std::string answer_key() const { return kind == RowKind::kSupervised ? "sft.completion_key" : "data.answer_key"; }

  /// Updates `answer`, `source` and `unused` with a row; `others` are its columns except the prompt.
  void add_row(const Json& others);

  /// "read as: verl; answer from reward_model.ground_truth, prompt from prompt (a conversation), ..."
  std::string note() const;
};

/// Detects the columns from a row; configured columns come first. `text` describes text prompts in the note. Throws
/// BadRow if no schema matches.
Columns detect_columns(const Row& row, const DataOptions& options, RowKind kind = RowKind::kPrompts,
                       const std::string& text = "a text");

/// The union of the columns of a file's rows. complete() adds missing columns as null, unless there are more than 1,000
/// columns, which are then data themselves.
class ColumnNames {
 public:
  void add(const Json& row);
  void complete(Json& row) const;

 private:
  std::vector<std::string> names_;
  std::unordered_set<std::string> known_;
};

/// The content of a row before rendering.
struct Example {
  Json prompt;         // a string, or messages: a list of {role, content, ...}
  Json answer;         // null if absent; SFT: the completion, null if the prompt column is the whole example
  std::string source;  // empty if absent
  Json extra;          // all columns except the prompt
  Json tools = {};     // SFT: tools for the chat template; null: none
  std::string place;   // file and row, for messages
};

/// Throws BadRow if a column is missing or has a wrong type.
Example make_example(Row row, const Columns& columns);

/// The value of a column; "a.b" is the field b of column a, unless a column has that name. Null if absent.
const Json* find_column(const Json& row, std::string_view path);

/// The first non-null column, else the first present one.
std::string filled_column(const Json& row, const std::vector<std::string>& paths);

/// Up to 20 column names, for messages.
std::string column_names(const Json& row);

}  // namespace keel
