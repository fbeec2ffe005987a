#include "keel/record/tokens/token_file.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>

#include "keel/core/error.h"

#ifdef KEEL_HAS_PARQUET
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/util/compression.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/writer.h>

#include "keel/core/files/file.h"
#endif

namespace keel {

std::string TokenFile::name(int64_t step) {
  char text[40];
  snprintf(text, sizeof(text), "step-%08lld.parquet", static_cast<long long>(step));
  return text;
}

int64_t TokenFile::step_of(std::string name) {
  constexpr std::string_view kBegin = "step-", kPartial = ".partial";
  if (name.ends_with(kPartial)) name.resize(name.size() - kPartial.size());
  int64_t step = -1;
  if (!name.starts_with(kBegin)) return -1;
  const auto [rest, error] = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), step);
  return error == std::errc() && step >= 0 && TokenFile::name(step) == name ? step : -1;
}

#ifdef KEEL_HAS_PARQUET

void require_token_files() {}

namespace {

constexpr const char* kFormat = "1";  // of the columns and of what keel.step says

/// What Arrow writes goes to a file of ours, whose failures are Errors; the library is told that there was one.
class Sink : public arrow::io::OutputStream {
 public:
  explicit Sink(DurableFile& file) : file_(file) {}
  arrow::Status Write(const void* data, int64_t bytes) override {
    try {
      file_.write(std::string_view(static_cast<const char*>(data), static_cast<size_t>(bytes)));
    } catch (const std::exception& error) {
      failure_ = std::current_exception();
      return arrow::Status::IOError(error.what());
    }
    position_ += bytes;
    return arrow::Status::OK();
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return position_; }
  bool closed() const override { return closed_; }
  const std::exception_ptr& failure() const { return failure_; }

 private:
  DurableFile& file_;
  std::exception_ptr failure_;
  int64_t position_ = 0;
  bool closed_ = false;
};

/// A column: its name, its type, and its values as an array.
struct Column {
  std::shared_ptr<arrow::Field> field;
  std::function<arrow::Result<std::shared_ptr<arrow::Array>>(std::span<const TokenRow>)> array;
};

template <class Builder, class Append>
Column column(const char* name, std::shared_ptr<arrow::DataType> type, bool nullable, const Append& append) {
  return {arrow::field(name, std::move(type), nullable),
          [append](std::span<const TokenRow> rows) -> arrow::Result<std::shared_ptr<arrow::Array>> {
            Builder builder;
            ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<int64_t>(rows.size())));
            for (const TokenRow& row : rows) ARROW_RETURN_NOT_OK(append(builder, row));
            return builder.Finish();
          }};
}

template <class Builder, class Member>
Column of(const char* name, std::shared_ptr<arrow::DataType> type, Member TokenRow::*member) {
  return column<Builder>(name, std::move(type), false,
                         [member](Builder& builder, const TokenRow& row) { return builder.Append(row.*member); });
}

/// One that may be unknown.
Column known(const char* name, float TokenRow::*member) {
  return column<arrow::FloatBuilder>(
      name, arrow::float32(), true, [member](arrow::FloatBuilder& builder, const TokenRow& row) {
        return std::isnan(row.*member) ? builder.AppendNull() : builder.Append(row.*member);
      });
}

const std::vector<Column>& columns() {
  using Row = TokenRow;
  static const auto integer = [](const char* name, int64_t Row::*member) {
    return of<arrow::Int64Builder>(name, arrow::int64(), member);
  };
  static const auto number = [](const char* name, float Row::*member) {
    return of<arrow::FloatBuilder>(name, arrow::float32(), member);
  };
  static const std::vector<Column> all = {
      integer("step", &Row::step),
      integer("update", &Row::update),
      integer("prompt", &Row::prompt),
      integer("group", &Row::group),
      integer("rollout", &Row::rollout),
      integer("policy_version", &Row::policy_version),
      of<arrow::Int32Builder>("position", arrow::int32(), &Row::position),
      of<arrow::Int32Builder>("token_id", arrow::int32(), &Row::token_id),
      of<arrow::StringBuilder>("token", arrow::utf8(), &Row::token),
      number("log_mu", &Row::log_mu),
      number("log_pi", &Row::log_pi),
      known("log_other_mu", &Row::log_other_mu),
      known("log_other_pi", &Row::log_other_pi),
      known("log_recomputed", &Row::log_recomputed),
      known("log_other_recomputed", &Row::log_other_recomputed),
      known("log_reference", &Row::log_reference),
      known("topk_tv", &Row::topk_tv),
      known("topk_kl", &Row::topk_kl),
      known("topk_tv_replace_last", &Row::topk_tv_replace_last),
      known("topk_kl_replace_last", &Row::topk_kl_replace_last),
      known("full_tv", &Row::full_tv),
      known("full_kl", &Row::full_kl),
      number("divergence", &Row::divergence),
      number("threshold", &Row::threshold),
      number("ratio", &Row::ratio),
      number("advantage", &Row::advantage),
      number("coefficient", &Row::coefficient),
      number("weight", &Row::weight),
      of<arrow::BooleanBuilder>("kept", arrow::boolean(), &Row::kept),
      of<arrow::BooleanBuilder>("outside", arrow::boolean(), &Row::outside),
      known("entropy", &Row::entropy),
      known("entropy_mu", &Row::entropy_mu),
      of<arrow::DoubleBuilder>("reward", arrow::float64(), &Row::reward),
  };
  return all;
}

std::shared_ptr<arrow::Schema> schema() {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const Column& column : columns()) fields.push_back(column.field);
  return arrow::schema(fields);
}

std::shared_ptr<parquet::WriterProperties> properties() {
  parquet::WriterProperties::Builder builder;
  if (arrow::util::Codec::IsAvailable(parquet::Compression::ZSTD)) builder.compression(parquet::Compression::ZSTD);
  return builder.enable_page_checksum()->build();
}

}  // namespace

class TokenFile::Writer {
 public:
  explicit Writer(const std::filesystem::path& path)
      : path_(path), file_(path), sink_(std::make_shared<Sink>(file_)), schema_(schema()) {
    auto writer = parquet::arrow::FileWriter::Open(*schema_, arrow::default_memory_pool(), sink_, properties());
    require(writer.status());
    writer_ = std::move(*writer);
  }

  void add(std::span<const TokenRow> rows) {
    if (rows.empty()) return;
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    for (const Column& column : columns()) {
      auto array = column.array(rows);
      require(array.status());
      arrays.push_back(*array);
    }
    require(writer_->NewBufferedRowGroup());
    require(writer_->WriteRecordBatch(
        *arrow::RecordBatch::Make(schema_, static_cast<int64_t>(rows.size()), std::move(arrays))));
  }

  void commit(const Json& facts) {
    require(writer_->AddKeyValueMetadata(
        arrow::key_value_metadata({{"keel.format", kFormat}, {"keel.step", facts.dump()}})));
    require(writer_->Close());
    file_.commit();
  }

 private:
  void require(const arrow::Status& status) const {
    if (status.ok()) return;
    if (sink_->failure()) std::rethrow_exception(sink_->failure());
    fail(ExitCode::kHealthGuard, path_.string(), ": cannot be written: ", status.message());
  }

  std::filesystem::path path_;
  DurableFile file_;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

TokenFile::TokenFile(const std::filesystem::path& folder, int64_t step) {
  require_no_link(folder);
  create_directories(folder);
  writer_ = std::make_unique<Writer>(folder / name(step));
}
TokenFile::~TokenFile() = default;
void TokenFile::add(std::span<const TokenRow> rows) { writer_->add(rows); }
void TokenFile::commit(const Json& facts) { writer_->commit(facts); }

#else

void require_token_files() {
  fail(ExitCode::kBadConfiguration, "record.tokens writes Parquet, and this program was built without Arrow; install ",
       "the Python package pyarrow and build again, or set record.tokens=none");
}

class TokenFile::Writer {};
TokenFile::TokenFile(const std::filesystem::path&, int64_t) { require_token_files(); }
TokenFile::~TokenFile() = default;
void TokenFile::add(std::span<const TokenRow>) {}
void TokenFile::commit(const Json&) {}

#endif

void require_no_link(const std::filesystem::path& folder) {
  std::error_code unseen;
  if (!std::filesystem::is_symlink(std::filesystem::symlink_status(folder, unseen))) return;
  fail(ExitCode::kBadInput, folder.string(),
       ": is a link, and token records behind it may be another run's; remove the ",
       "link (a folder takes its place), or set record.tokens=none");
}

}  // namespace keel
