#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "keel/data/data_options.h"
#include "keel/data/rows/bad_row.h"
#include "keel/data/rows/row_file.h"
#include "keel/data/schema.h"

namespace keel {

/// Why the rewards cannot judge by this answer of a row from this source; empty: they can.
using AnswerCheck = std::function<std::string(const Json& answer, const std::string& source)>;

/// The rows of several files behind each other, by number.
class Dataset {
 public:
  /// `names` are the files, or eval_files, of section data or sft. Reads the first row of each
  /// file, or every row (data.bad_rows). One whose answer `check` objects to is bad. `text` is what notes() call
  /// prompts that are texts.
  static Dataset open(const std::vector<std::string>& names, const DataOptions& options, AnswerCheck check = {},
                      const std::string& text = "a text", RowKind kind = RowKind::kPrompts);

  uint64_t rows() const { return rows_; }
  /// The first row of each file that has some.
  std::vector<uint64_t> first_rows() const;
  /// The files of which all rows stand behind the first `count` ones.
  std::vector<std::string> files_behind(uint64_t count) const;
  /// A BadRow where the row cannot be used.
  Example read(uint64_t row) const;

  /// Sentences to print: how each kind of file is read, which texts the model does not see, and which rows are bad.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Where the rows come from; nothing where they were not all read or come from too many places.
  const std::optional<std::set<std::string>>& sources() const { return sources_; }
  /// A hash of each row's prompt, to find copies; none where the rows were not all read.
  const std::vector<size_t>& prompt_hashes() const { return prompt_hashes_; }
  /// Changes with every byte of the rows: positions in another dataset mean other rows.
  std::string fingerprint() const;

 private:
  struct Part {
    RowFile file;
    uint64_t first_row;
    std::optional<Columns> columns;  // none where the file has no row that can be used
    std::filesystem::path path;
    std::string source;  // for rows that name none: the file
    ColumnNames names;   // none where its rows were not all read
  };

  void add_file(const std::filesystem::path& path, const std::string& text);
  void name_sources();
  void check_rows();
  void note_columns();
  Example example(Row row, const Part& part) const;
  BadRow without_columns(const Row& row) const;

  std::vector<Part> parts_;
  uint64_t rows_ = 0;
  std::vector<std::string> notes_;
  std::optional<std::set<std::string>> sources_;
  std::vector<size_t> prompt_hashes_;
  AnswerCheck check_;
  DataOptions options_;
  RowKind kind_ = RowKind::kPrompts;
};

/// The files that names with * and ? stand for, each pattern's in alphabetical order; one that stands for none is an
/// Error.
std::vector<std::filesystem::path> expand_names(const std::vector<std::string>& names);

}  // namespace keel
