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

/// Returns why the rewards cannot use this answer of a row from this source; empty if they can.
using AnswerCheck = std::function<std::string(const Json& answer, const std::string& source)>;

/// The concatenated rows of several files, by index.
class Dataset {
 public:
  /// `names`: files or eval_files of section data or sft. Reads every row, or the first of each file (data.bad_rows). A
  /// row whose answer `check` rejects is bad. `text` describes text prompts in notes().
  static Dataset open(const std::vector<std::string>& names, const DataOptions& options, AnswerCheck check = {},
                      const std::string& text = "a text", RowKind kind = RowKind::kPrompts);

  uint64_t rows() const { return rows_; }
  /// The index of the first row of each non-empty file.
  std::vector<uint64_t> first_rows() const;
  /// The files none of whose rows are among the first `count`.
  std::vector<std::string> files_after(uint64_t count) const;
  /// Throws BadRow if the row cannot be used.
  Example read(uint64_t row) const;

  /// Notes to print: how each kind of file is read, which texts are not used, and which rows are bad.
  const std::vector<std::string>& notes() const { return notes_; }
  /// The data sources of the rows; none if not every row was read or there are too many.
  const std::optional<std::set<std::string>>& sources() const { return sources_; }
  /// A hash of each row's prompt, to find duplicates; empty if not every row was read.
  const std::vector<size_t>& prompt_hashes() const { return prompt_hashes_; }
  /// A hash of the rows' content. A saved position is valid only for the same fingerprint.
  std::string fingerprint() const;

 private:
  struct Part {
    RowFile file;
    uint64_t first_row;
    std::optional<Columns> columns;  // none if the file has no usable row
    std::filesystem::path path;
    std::string source;  // default for rows without a source: the file
    ColumnNames names;   // empty if not every row was read
  };

  void add_file(const std::filesystem::path& path, const std::string& text);
  void name_sources();
  void check_rows();
  void note_columns();
  Example example(Row row, const Part& part) const;
  BadRow missing_columns(const Row& row) const;

  std::vector<Part> parts_;
  uint64_t rows_ = 0;
  std::vector<std::string> notes_;
  std::optional<std::set<std::string>> sources_;
  std::vector<size_t> prompt_hashes_;
  AnswerCheck check_;
  DataOptions options_;
  RowKind kind_ = RowKind::kPrompts;
};

/// Expands glob patterns, each in alphabetical order. A pattern without a match is an Error.
std::vector<std::filesystem::path> expand_globs(const std::vector<std::string>& names);

}  // namespace keel
