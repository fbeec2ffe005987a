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

/// How one of the programs people come from writes its rows.
struct Schema {
  std::string name;
  std::vector<std::string> marks;    // columns by which it is known; a.b is b in a
  std::vector<std::string> prompts;  // the first of them that is there is taken; and so on
  std::vector<std::string> answers;
  std::vector<std::string> sources;
  bool answer_after_hashes = false;  // GSM8K: the answer stands behind "####"
};

/// All schemas; the first whose marks are there is taken.
const std::vector<Schema>& schema_table();

/// Which columns of a file are read. Empty: none.
struct Columns {
  std::string schema;
  std::string prompt, answer, source;
  bool answer_after_hashes = false;
  bool answer_required = false;          // named by data.answer_key: a row without it is bad
  bool source_required = false;          // named by data.source_key: the same
  bool conversation = false;             // of the row they were recognised by
  bool answer_is_messages = false;       // of that row, in rows to be imitated
  bool prompt_named = false;             // by data.prompt_key: it alone is meant, whatever stands beside it
  bool whole_text = false;               // a text that is learned whole, in rows to be imitated
  bool has_template_words = false;       // a column of words for the chat template, which no row has of its own
  std::string section = "data";          // of the configuration, that names columns and files
  std::vector<std::string> unseen = {};  // columns of that row with texts that are neither prompt nor answer

  /// Takes answer and source from a later row of the file where the rows before it have none.
  void complete(const Columns& later);

  /// Fills `unseen`, when the others are known.
  void note_unseen(const Json& row);

  /// "read as: verl; answer from reward_model.ground_truth, prompt from prompt (a conversation), ..."; `text` is said
  /// of prompts that are none.
  std::string sentence(const std::string& text = "a text") const;
  /// Its end: "; texts that the model is not shown: ..."; empty where there are none.
  std::string unseen_sentence() const;
};

/// The columns of rows like this one; keys of the options come first. A BadRow where there is no prompt.
Columns recognise(const Row& row, const DataOptions& options);

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

/// What a row says, before it is rendered.
struct Example {
  Json prompt;         // a string, or messages: a list of {role, content, ...}
  Json answer;         // null where the row has none; whether that will do is for the rewards to say
  std::string source;  // empty where the row has none
  Json extra;          // all columns but that of the prompt
  Json tools = {};     // that the chat template is to show, in rows to be imitated; null: none
  std::string place;
};

/// A BadRow where a column is missing or is not what it should be.
Example example_of(Row row, const Columns& columns);

/// How rows are read: as prompts, or as something else.
struct RowReading {
  Columns (*recognise)(const Row& row, const DataOptions& options);
  Example (*example)(Row row, const Columns& columns);
  std::string (*sentence)(const Columns& columns, const std::string& text);
  const char* section = "data";  // of the configuration, that names columns and files
};
extern const RowReading kPromptRows;

// For who reads rows otherwise.
/// Whether a message of the assistant's may be without content, since it calls functions (tool_calls).
enum class Calls { kRefused, kAllowed };
/// A list of messages, each without the fields that are null; a BadRow where one is none. `what` they are of is told.
Json checked_messages(Json messages, const std::string& what, const std::string& place, Calls calls = Calls::kRefused);
/// The content of a message; empty where it has none.
std::string message_content(const Json& message);
/// Whether a value is a text that pandas or Python wrote where there was none.
bool is_written_nothing(const Json& value);
/// A BadRow where the row has a part of the question that its prompt does not say.
void refuse_parts_left_out(const Json& row, const Json& prompt, const Columns& columns, const std::string& place);
/// The value of a column that `key` of the section names; a BadRow where there is none.
const Json& required_column(const Row& row, const std::string& path, const std::string& section,
                            const std::string& key);
/// A BadRow where a text is a conversation that a program wrote down, as JSON or as Python shows it.
void refuse_written_conversation(const std::string& text, const std::string& what, const std::string& place,
                                 const std::string& way_out = "");
/// Of a row, to be shown.
std::string column_names(const Json& row);

/// The value of a column; "a.b" is b in a, unless a column has that very name.
const Json* find_column(const Json& row, std::string_view path);

}  // namespace keel
