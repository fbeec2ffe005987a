#include "keel/record/tokens/token_reader.h"

#include <algorithm>
#include <numeric>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/json_reader.h"
#include "keel/core/untrusted_text.h"
#include "keel/record/tokens/token_file.h"

#ifdef KEEL_HAS_ARROW
#include <arrow/record_batch.h>
#include <arrow/util/key_value_metadata.h>

#include "keel/core/files/parquet_file.h"
#include "keel/record/tokens/token_columns.h"
#endif

namespace keel {
namespace {

bool is_being_written(const std::string& name) {
  return TokenFile::parse_step(name) >= 0 && name.ends_with(".partial");
}

/// Lists the token record files of a run, including partial ones.
std::vector<std::string> list_records(const std::filesystem::path& run) {
  std::vector<std::string> names;
  if (!is_folder(run / "tokens")) return names;
  for (const std::string& name : list_directory(run / "tokens"))
    if (TokenFile::parse_step(name) >= 0) names.push_back(name);
  return names;
}

}  // namespace

std::vector<std::filesystem::path> token_files(const std::filesystem::path& run) {
  std::vector<std::string> names = list_records(run);
  std::erase_if(names, is_being_written);
  std::ranges::sort(names, {}, &TokenFile::parse_step);  // a step of nine digits comes after one of eight
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) files.push_back(run / "tokens" / name);
  return files;
}

std::string no_token_files(const std::filesystem::path& run) {
  if (!is_folder(run)) return str_cat(run.string(), ": no such folder; expected a run folder");
  const bool is_writing = std::ranges::any_of(list_records(run), is_being_written);
  return str_cat(run.string(), ": ",
                 is_writing ? "its first token record is being written; wait for the end of the step"
                            : "has no token records (tokens/step-*.parquet); record them with `keel train ... "
                              "record.tokens=sample` or =all; docs/tokens.md lists the costs");
}

#ifdef KEEL_HAS_ARROW

namespace {

constexpr int64_t kRowsPerBatch = 16'384;

}  // namespace

class TokenReader::Source {
 public:
  Source(std::filesystem::path path, const std::vector<std::string>& columns)
      : path_(std::move(path)), memory_(arrow::system_memory_pool(), kMaxParquetMemory) {
    if (is_being_written(path_.filename().string()))
      fail(ExitCode::kBadInput, path_.string(), ": is being written; wait for the end of the step");
    InputFile::open(path_);  // gives clearer errors than Arrow for missing or unreadable files
    check_arrow([&] { return open(); });
    read_metadata();
    select_columns(columns);
    check_arrow([&] { return begin_reading(); });
    if (const auto expected = metadata_.find("rows"); expected != metadata_.end() && *expected != rows())
      fail_damaged(str_cat("it has ", rows(), " rows, expected ", shorten(expected->dump(), 20), " (keel.step)"));
  }

  const Json& metadata() const { return metadata_; }
  int64_t rows() const { return reader_->parquet_reader()->metadata()->num_rows(); }

  std::vector<TokenRow> next() {
    std::vector<TokenRow> rows;
    while (rows.empty() && rows_read_ < this->rows()) check_arrow([&] { return read_batch(rows); });
    if (can_check_order_) require_order(rows);
    return rows;
  }

 private:
  [[noreturn]] void fail_damaged(const std::string& reason) const {
    fail(ExitCode::kBadInput, path_.string(), ": damaged token record: ", reason,
         ". Move it away; the records of other steps are still readable");
  }

  template <class Call>
  void check_arrow(const Call& call) const {
    if (const std::string problem = arrow_problem(call); !problem.empty()) fail_damaged(problem);
  }

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(reader_, open_parquet(path_, memory_, kRowsPerBatch));
    return reader_->GetSchema(&schema_);
  }

  static bool are_texts(const Json& json) {
    return json.is_object() && std::ranges::all_of(json, [](const Json& text) { return text.is_string(); });
  }

  void read_metadata() {
    const auto entries = reader_->parquet_reader()->metadata()->key_value_metadata();
    const std::string format = entries == nullptr ? "" : entries->Get("keel.format").ValueOr("");
    if (format.empty())
      fail(ExitCode::kBadInput, path_.string(), ": is not a token record (no keel.format in its metadata)");
    if (format != kTokenFormat)
      fail(ExitCode::kBadInput, path_.string(), ": unsupported token record format ", printable(format), " (expected ",
           kTokenFormat, "). Read it with the program that wrote it");
    std::optional<Json> step_metadata = try_parse_json(entries->Get("keel.step").ValueOr(""));
    if (!step_metadata || !step_metadata->is_object()) fail_damaged("keel.step is not a JSON object");
    metadata_ = std::move(*step_metadata);
    if (const auto prompts = metadata_.find("prompts"); prompts != metadata_.end() && !are_texts(*prompts))
      fail_damaged("\"prompts\" of keel.step is not an object of texts");
    const int64_t expected = TokenFile::parse_step(path_.filename().string());
    if (const auto step = metadata_.find("step"); expected >= 0 && (step == metadata_.end() || *step != expected))
      fail_damaged("its name has step " + std::to_string(expected) + ", keel.step has " +
                   (step == metadata_.end() ? "none" : shorten(step->dump(), 20)));
  }

  /// Checks the types of all columns and selects those to read.
  void select_columns(const std::vector<std::string>& columns) {
    const auto has = [](const std::vector<std::string>& names, const std::string& name) {
      return std::ranges::find(names, name) != names.end();
    };
    size_t num_found = 0;
    for (const TokenColumn& column : token_columns()) {
      const std::string& name = column.field->name();
      const auto field = schema_->GetFieldByName(name);
      num_found += has(columns, name);
      if (name == "choices" && schema_->GetAllFieldIndices(name).empty()) continue;  // an older file has none
      if (field == nullptr) fail_damaged("it has no column " + name + ", or several");
      if (!field->type()->Equals(*column.field->type()))
        fail_damaged("its column " + name + " is " + field->type()->ToString() + "; expected " +
                     column.field->type()->ToString());
      if (!columns.empty() && !has(columns, name)) continue;
      selected_.push_back(&column);
      leaves_.push_back(reader_->parquet_reader()->metadata()->schema()->ColumnIndex(name));
    }
    const auto reads = [&](const char* name) { return columns.empty() || has(columns, name); };
    can_check_order_ = reads("update") && reads("rollout") && reads("position");
    last_row_.position = -1;
    if (num_found != columns.size())
      fail(ExitCode::kInternal, "a column of token records is requested twice or unknown");
  }

  /// Checks that updates ascend and that the positions of a completion are consecutive from 0.
  void require_order(const std::vector<TokenRow>& rows) {
    for (const TokenRow& row : rows) {
      const bool continues =
          row.update == last_row_.update && row.rollout == last_row_.rollout && last_row_.position >= 0;
      if (row.update < last_row_.update || row.position != (continues ? last_row_.position + 1 : 0))
        fail_damaged(str_cat("position ", row.position, " of completion ", row.rollout, " in update ", row.update,
                             " is out of order"));
      last_row_.update = row.update, last_row_.rollout = row.rollout, last_row_.position = row.position;
    }
  }

  arrow::Status begin_reading() {
    std::vector<int> row_groups(static_cast<size_t>(reader_->num_row_groups()));
    std::iota(row_groups.begin(), row_groups.end(), 0);
    ARROW_ASSIGN_OR_RAISE(batches_, reader_->GetRecordBatchReader(row_groups, leaves_));
    return arrow::Status::OK();
  }

  arrow::Status read_batch(std::vector<TokenRow>& rows) {
    ARROW_ASSIGN_OR_RAISE(auto batch, batches_->Next());
    if (batch == nullptr || batch->num_rows() == 0 || batch->num_rows() > this->rows() - rows_read_)
      return arrow::Status::Invalid("it has fewer or more rows than its metadata");
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    rows_read_ += batch->num_rows();
    rows.resize(static_cast<size_t>(batch->num_rows()));
    for (const TokenColumn* column : selected_) {
      const auto array = batch->GetColumnByName(column->field->name());
      if (array == nullptr) return arrow::Status::Invalid("a column is missing");
      if (!column->field->nullable() && array->null_count() > 0)
        return arrow::Status::Invalid("its column ", column->field->name(), " has a null value");
      column->fill(*array, rows);
    }
    return arrow::Status::OK();
  }

  std::filesystem::path path_;
  arrow::CappedMemoryPool memory_;  // outlives its allocations
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  Json metadata_;
  std::vector<const TokenColumn*> selected_;
  std::vector<int> leaves_;  // column indices in the file
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  int64_t rows_read_ = 0;
  bool can_check_order_ = false;  // the required columns are read
  TokenRow last_row_;             // update, rollout and position of the last row
};

TokenReader::TokenReader(const std::filesystem::path& file, const std::vector<std::string>& columns)
    : source_(std::make_unique<Source>(file, columns)) {}
const Json& TokenReader::metadata() const { return source_->metadata(); }
int64_t TokenReader::rows() const { return source_->rows(); }
std::vector<TokenRow> TokenReader::next() { return source_->next(); }

#else

class TokenReader::Source {};
TokenReader::TokenReader(const std::filesystem::path& file, const std::vector<std::string>&) {
  fail(ExitCode::kBadConfiguration, file.string(),
       ": token records are Parquet, but this program was built without Arrow. Install the Python package pyarrow and ",
       "rebuild");
}
const Json& TokenReader::metadata() const { fail(ExitCode::kInternal, "no token record is open"); }
int64_t TokenReader::rows() const { return 0; }
std::vector<TokenRow> TokenReader::next() { return {}; }

#endif

TokenReader::~TokenReader() = default;
TokenReader::TokenReader(TokenReader&&) noexcept = default;
TokenReader& TokenReader::operator=(TokenReader&&) noexcept = default;

}  // namespace keel
