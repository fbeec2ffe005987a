#include "keel/data/dataset.h"

#include <glob.h>

#include <algorithm>
#include <map>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/files/json_file.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

[[noreturn]] void fail_on(const BadRow& bad) { fail(ExitCode::kBadInput, bad.what()); }

/// Returns the file name without endings: "train" of "gsm8k/train.jsonl.gz".
std::string base_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.substr(0, name.find('.', 1));
}

/// The columns of the first usable row of the file.
std::optional<Columns> find_columns(const RowFile& file, const DataOptions& options, RowKind kind,
                                    const std::string& text) {
  constexpr uint64_t kMaxRowsTried = 1000;
  for (uint64_t index = 0; index < std::min(file.rows(), kMaxRowsTried); ++index) {
    try {
      Row row = file.read(index);
      Columns columns = detect_columns(row, options, kind, text);
      if (options.reads_rows_late()) columns.add_row(make_example(std::move(row), columns).extra);
      return columns;
    } catch (const BadRow& bad) {
      if (!options.skips_bad_rows()) fail_on(bad);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::filesystem::path> expand_globs(const std::vector<std::string>& names) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) {
    if (name.find_first_of("*?[") == std::string::npos || path_exists(name)) {
      paths.emplace_back(name);
      continue;
    }
    glob_t found{};
    const int result = glob(name.c_str(), 0, nullptr, &found);
    if (result == 0) paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    if (result != 0) fail(ExitCode::kBadInput, "no file matches ", name);
  }
  return paths;
}

Dataset Dataset::open(const std::vector<std::string>& names, const DataOptions& options, AnswerCheck check,
                      const std::string& text, RowKind kind) {
  Dataset dataset;
  dataset.kind_ = kind;
  dataset.check_ = std::move(check);
  dataset.options_ = options;
  for (const std::filesystem::path& path : expand_globs(names)) dataset.add_file(path, text);
  dataset.name_sources();
  if (dataset.rows_ == 0)
    fail(ExitCode::kBadInput, joined(names), ": the data set is empty. Fix: give files with rows");
  if (options.reads_rows_late())
    dataset.note_columns();
  else
    dataset.check_rows();
  return dataset;
}

void Dataset::add_file(const std::filesystem::path& path, const std::string& text) {
  if (is_folder(path))
    fail(ExitCode::kBadInput, path.string(), " is a folder. Fix: name its files, for instance ",
         (path / "*.jsonl").string());
  const bool is_hub_name =
      path.is_relative() && path.has_parent_path() && !path.has_extension() && !path.string().starts_with('~');
  if (is_hub_name && !path_exists(path))
    fail(ExitCode::kBadInput, "there is no file ", path.string(),
         ". Fix: download a data set of the Hugging Face hub first and name its files: hf download ", path.string(),
         " --repo-type dataset --local-dir FOLDER");
  Part part{RowFile::open(path), rows_, std::nullopt, path, "", {}};
  part.columns = find_columns(part.file, options_, kind_, text);
  rows_ += part.file.rows();
  parts_.push_back(std::move(part));
}

void Dataset::note_columns() {
  for (const Part& part : parts_) {
    const std::string note = part.columns ? part.columns->note() : "";
    if (!note.empty() && std::ranges::count(notes_, note) == 0) notes_.push_back(note);
  }
}

/// Names each source after its file, with parent folders until the names differ: gsm8k/test and math/test.
void Dataset::name_sources() {
  std::vector<std::filesystem::path> folders;
  for (Part& part : parts_) {
    part.source = base_name(part.path);
    folders.push_back(std::filesystem::absolute(part.path).lexically_normal().parent_path());
  }
  for (bool ambiguous = true; std::exchange(ambiguous, false);) {
    std::map<std::string, std::set<std::filesystem::path>> folders_by_source;
    for (size_t i = 0; i < parts_.size(); ++i) folders_by_source[parts_[i].source].insert(folders[i]);
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (folders_by_source[parts_[i].source].size() == 1 || !folders[i].has_filename()) continue;
      parts_[i].source = folders[i].filename().string() + "/" + parts_[i].source;
      folders[i] = folders[i].parent_path();
      ambiguous = true;
    }
  }
}

std::vector<uint64_t> Dataset::first_rows() const {
  std::vector<uint64_t> rows;
  for (const Part& part : parts_)
    if (part.file.rows() > 0) rows.push_back(part.first_row);
  return rows;
}

std::vector<std::string> Dataset::files_after(uint64_t count) const {
  std::vector<std::string> files;
  for (const Part& part : parts_)
    if (part.first_row >= count && part.file.rows() > 0) files.push_back(part.path.string());
  return files;
}

void Dataset::check_rows() {
  constexpr size_t kMaxSources = 1000;
  std::set<std::string> sources;
  uint64_t bad_rows = 0, usable_rows = 0;
  std::string first_bad;
  const auto on_bad = [&](const BadRow& bad) {
    if (!options_.skips_bad_rows()) fail_on(bad);
    if (bad_rows == 0) first_bad = bad.what();
    bad_rows += bad.rows();
  };
  for (Part& part : parts_) {
    ColumnNames names;
    const auto on_row = [&](Row row) {
      if (!part.columns) return on_bad(missing_columns(row));
      try {
        const Example usable = example(std::move(row), part);
        ++usable_rows;
        if (sources.size() <= kMaxSources) sources.insert(usable.source);
        names.add(usable.extra);
        part.columns->add_row(usable.extra);
        prompt_hashes_.push_back(std::hash<std::string>()(json_line(usable.prompt)));
      } catch (const BadRow& bad) {
        on_bad(bad);
      }
    };
    part.file.for_each(on_row, on_bad);
    part.names = std::move(names);
  }
  if (usable_rows == 0)
    fail(ExitCode::kBadInput, "none of the ", bad_rows, " rows can be used; the first: ", first_bad);
  if (sources.size() <= kMaxSources) sources_ = std::move(sources);
  note_columns();
  if (bad_rows > 0)
    notes_.push_back(std::to_string(bad_rows) + " bad row" + (bad_rows > 1 ? "s are" : " is") +
                     " skipped; the first: " + first_bad);
}

Example Dataset::read(uint64_t row) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), row,
                                      [](uint64_t index, const Part& part) { return index < part.first_row; });
  const Part& part = *(after - 1);
  Row found = part.file.read(row - part.first_row);
  if (!part.columns) throw missing_columns(found);
  return example(std::move(found), part);
}

/// Returns the error for a row of a file without recognised columns: what is missing, and which columns the row has.
BadRow Dataset::missing_columns(const Row& row) const {
  try {
    make_example(row, detect_columns(row, options_, kind_));
  } catch (const BadRow& bad) {
    return bad;
  }
  return BadRow(row.place, std::string("the first rows of the file have other columns. Fix: set ") +
                               (kind_ == RowKind::kSupervised ? "sft" : "data") + ".prompt_key to its column");
}

Example Dataset::example(Row row, const Part& part) const {
  Example result = make_example(std::move(row), *part.columns);
  if (result.source.empty()) result.source = part.source;
  part.names.complete(result.extra);
  const std::string answer_error = check_ ? check_(result.answer, result.source) : "";
  if (answer_error.empty()) return result;
  const std::string& column = part.columns->answer;
  throw BadRow(result.place, answer_error +
                                 (column.empty() ? "; no column was recognised as the answer. Fix: set data.answer_key"
                                                 : "; the answer is column \"" + column +
                                                       "\". Fix: correct it, or set data.answer_key to another") +
                                 "; data.bad_rows=skip skips it");
}

std::string Dataset::fingerprint() const {
  std::string all;
  for (const Part& part : parts_) all += part.file.fingerprint();
  return sha256_hex(all).substr(0, 16);
}

}  // namespace keel
