#include "keel/record/tokens/token_reader.h"

#include <algorithm>
#include <numeric>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/untrusted_text.h"
#include "keel/core/json_reader.h"
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

/// The names of a run's records, and of what is being written of them.
std::vector<std::string> names_of_records(const std::filesystem::path& run) {
  std::vector<std::string> names;
  if (!is_folder(run / "tokens")) return names;
  for (const std::string& name : list_directory(run / "tokens"))
    if (TokenFile::parse_step(name) >= 0) names.push_back(name);
  return names;
}

}  // namespace

std::vector<std::filesystem::path> token_files(const std::filesystem::path& run) {
  std::vector<std::string> names = names_of_records(run);
  std::erase_if(names, is_being_written);
  std::ranges::sort(names, {}, &TokenFile::parse_step);  // a step of nine digits comes after one of eight
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) files.push_back(run / "tokens" / name);
  return files;
}

std::string no_token_files(const std::filesystem::path& run) {
  if (!is_folder(run)) return str_cat(run.string(), ": there is no such folder; expected the folder of a run");
  const bool begun = std::ranges::any_of(names_of_records(run), is_being_written);
  return str_cat(run.string(), ": ",
                 begun ? "its first token record is being written; wait until the step is over"
                       : "has no token records (tokens/step-*.parquet); record them with `keel train ... "
                         "record.tokens=sample` or =all; docs/tokens.md says what each costs");
}

#ifdef KEEL_HAS_ARROW

namespace {

constexpr int64_t kTokensAtOnce = 16'384;

}  // namespace

class TokenReader::Source {
 public:
  Source(std::filesystem::path path, const std::vector<std::string>& columns)
      : path_(std::move(path)), memory_(arrow::system_memory_pool(), kMaxParquetMemory) {
    if (is_being_written(path_.filename().string()))
      fail(ExitCode::kBadInput, path_.string(), ": is being written; wait until the step is over");
    InputFile::open(path_);  // what is no file, or may not be read, is told in our words
    within_library([&] { return open(); });
    read_facts();
    pick(columns);
    within_library([&] { return begin(); });
    if (const auto said = facts_.find("rows"); said != facts_.end() && *said != rows())  // files of before say nothing
      refuse(str_cat("it has ", rows(), " rows, and by keel.step ", shorten(said->dump(), 20)));
  }

  const Json& facts() const { return facts_; }
  int64_t rows() const { return reader_->parquet_reader()->metadata()->num_rows(); }

  std::vector<TokenRow> next() {
    std::vector<TokenRow> rows;
    while (rows.empty() && row_ < this->rows()) within_library([&] { return read(rows); });
    if (knows_order_) require_order(rows);
    return rows;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    fail(ExitCode::kBadInput, path_.string(), ": not a sound token record: ", reason,
         "; it was cut off or changed. Move it away: the records of other steps can still be read");
  }

  template <class Call>
  void within_library(const Call& call) const {
    if (const std::string problem = arrow_problem(call); !problem.empty()) refuse(problem);
  }

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(reader_, open_parquet(path_, memory_, kTokensAtOnce));
    return reader_->GetSchema(&schema_);
  }

  static bool are_texts(const Json& json) {
    return json.is_object() && std::ranges::all_of(json, [](const Json& text) { return text.is_string(); });
  }

  void read_facts() {
    const auto metadata = reader_->parquet_reader()->metadata()->key_value_metadata();
    const std::string format = metadata == nullptr ? "" : metadata->Get("keel.format").ValueOr("");
    if (format.empty())
      fail(ExitCode::kBadInput, path_.string(), ": is a Parquet file, but no token record: it has no keel.format");
    if (format != kTokenFormat)
      fail(ExitCode::kBadInput, path_.string(), ": is a token record of format ", printable(format),
           ", and this program reads format ", kTokenFormat, "; read it with the program that wrote it");
    std::optional<Json> facts = try_parse_json(metadata->Get("keel.step").ValueOr(""));
    if (!facts || !facts->is_object()) refuse("what it says of the step (keel.step) is no JSON object");
    facts_ = std::move(*facts);
    if (const auto prompts = facts_.find("prompts"); prompts != facts_.end() && !are_texts(*prompts))
      refuse("what it says of the step (keel.step) has \"prompts\" that are no texts by their ids");
    const int64_t of_name = TokenFile::parse_step(path_.filename().string());
    if (const auto step = facts_.find("step"); of_name >= 0 && (step == facts_.end() || *step != of_name))
      refuse("by its name it is of step " + std::to_string(of_name) + ", by keel.step of " +
             (step == facts_.end() ? "none" : shorten(step->dump(), 20)));
  }

  /// All columns must be as the format has them, also those that are not read.
  void pick(const std::vector<std::string>& columns) {
    const auto has = [](const std::vector<std::string>& names, const std::string& name) {
      return std::ranges::find(names, name) != names.end();
    };
    size_t found = 0;
    for (const TokenColumn& column : token_columns()) {
      const std::string& name = column.field->name();
      const auto field = schema_->GetFieldByName(name);
      if (field == nullptr) refuse("it has no column " + name + ", or several");
      if (!field->type()->Equals(*column.field->type()))
        refuse("its column " + name + " is " + field->type()->ToString() + "; expected " +
               column.field->type()->ToString());
      found += has(columns, name);
      if (!columns.empty() && !has(columns, name)) continue;
      picked_.push_back(&column);
      leaves_.push_back(reader_->parquet_reader()->metadata()->schema()->ColumnIndex(name));
    }
    const auto reads = [&](const char* name) { return columns.empty() || has(columns, name); };
    knows_order_ = reads("update") && reads("rollout") && reads("position");
    last_.position = -1;
    if (found != columns.size())
      fail(ExitCode::kInternal, "a column of token records is asked for twice, or there is none of its name");
  }

  /// Updates rise, and the rows of a completion follow one another from its first token on.
  void require_order(const std::vector<TokenRow>& rows) {
    for (const TokenRow& row : rows) {
      const bool continues = row.update == last_.update && row.rollout == last_.rollout && last_.position >= 0;
      if (row.update < last_.update || row.position != (continues ? last_.position + 1 : 0))
        refuse(str_cat("position ", row.position, " of completion ", row.rollout, " in update ", row.update,
                       " is not where it was written"));
      last_.update = row.update, last_.rollout = row.rollout, last_.position = row.position;
    }
  }

  arrow::Status begin() {
    std::vector<int> parts(static_cast<size_t>(reader_->num_row_groups()));
    std::iota(parts.begin(), parts.end(), 0);
    ARROW_ASSIGN_OR_RAISE(batches_, reader_->GetRecordBatchReader(parts, leaves_));
    return arrow::Status::OK();
  }

  arrow::Status read(std::vector<TokenRow>& rows) {
    ARROW_ASSIGN_OR_RAISE(auto batch, batches_->Next());
    if (batch == nullptr || batch->num_rows() == 0 || batch->num_rows() > this->rows() - row_)
      return arrow::Status::Invalid("it has not as many rows as it says");
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    row_ += batch->num_rows();
    rows.resize(static_cast<size_t>(batch->num_rows()));
    for (const TokenColumn* column : picked_) {
      const auto array = batch->GetColumnByName(column->field->name());
      if (array == nullptr) return arrow::Status::Invalid("a column is lost");
      if (!column->field->nullable() && array->null_count() > 0)
        return arrow::Status::Invalid("its column ", column->field->name(), " has a value that is null");
      column->fill(*array, rows);
    }
    return arrow::Status::OK();
  }

  std::filesystem::path path_;
  arrow::CappedMemoryPool memory_;  // outlives what is made in it
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  Json facts_;
  std::vector<const TokenColumn*> picked_;
  std::vector<int> leaves_;  // their places in the file
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  int64_t row_ = 0;           // up to which the batches were read
  bool knows_order_ = false;  // by the columns that are read
  TokenRow last_;             // its update, rollout and position
};

TokenReader::TokenReader(const std::filesystem::path& file, const std::vector<std::string>& columns)
    : source_(std::make_unique<Source>(file, columns)) {}
const Json& TokenReader::facts() const { return source_->facts(); }
int64_t TokenReader::rows() const { return source_->rows(); }
std::vector<TokenRow> TokenReader::next() { return source_->next(); }

#else

class TokenReader::Source {};
TokenReader::TokenReader(const std::filesystem::path& file, const std::vector<std::string>&) {
  fail(ExitCode::kBadConfiguration, file.string(),
       ": token records are Parquet, and this program was built without Arrow; install the Python package pyarrow and ",
       "build again");
}
const Json& TokenReader::facts() const { fail(ExitCode::kInternal, "no token record is open"); }
int64_t TokenReader::rows() const { return 0; }
std::vector<TokenRow> TokenReader::next() { return {}; }

#endif

TokenReader::~TokenReader() = default;
TokenReader::TokenReader(TokenReader&&) noexcept = default;
TokenReader& TokenReader::operator=(TokenReader&&) noexcept = default;

}  // namespace keel
