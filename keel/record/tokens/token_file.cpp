#include "keel/record/tokens/token_file.h"

#include <charconv>
#include <cstdio>
#include <exception>

#include "keel/core/error.h"
#include "keel/core/files/link.h"

#ifdef KEEL_HAS_ARROW
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/util/compression.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/writer.h>

#include "keel/core/files/file.h"
#include "keel/record/tokens/token_columns.h"
#endif

namespace keel {

std::string TokenFile::name(int64_t step) {
  char text[40];
  snprintf(text, sizeof(text), "step-%08lld.parquet", static_cast<long long>(step));
  return text;
}

int64_t TokenFile::parse_step(std::string name) {
  constexpr std::string_view kBegin = "step-", kPartial = ".partial";
  if (name.ends_with(kPartial)) name.resize(name.size() - kPartial.size());
  int64_t step = -1;
  if (!name.starts_with(kBegin)) return -1;
  const auto [rest, error] = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), step);
  return error == std::errc() && step >= 0 && TokenFile::name(step) == name ? step : -1;
}

#ifdef KEEL_HAS_ARROW

void require_token_files() {}

/// Writes Arrow output to a DurableFile and keeps its exception, since Arrow only gets a status.
class TokenFileSink : public arrow::io::OutputStream {
 public:
  explicit TokenFileSink(DurableFile& file) : file_(file) {}
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

namespace {

std::shared_ptr<arrow::Schema> schema() {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const TokenColumn& column : token_columns()) fields.push_back(column.field);
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
      : path_(path), file_(path), sink_(std::make_shared<TokenFileSink>(file_)), schema_(schema()) {
    auto writer = parquet::arrow::FileWriter::Open(*schema_, arrow::default_memory_pool(), sink_, properties());
    require(writer.status());
    writer_ = std::move(*writer);
  }

  void add(std::span<const TokenRow> rows) {
    if (rows.empty()) return;
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    for (const TokenColumn& column : token_columns()) {
      auto array = column.array(rows);
      require(array.status());
      arrays.push_back(*array);
    }
    require(writer_->NewBufferedRowGroup());
    require(writer_->WriteRecordBatch(
        *arrow::RecordBatch::Make(schema_, static_cast<int64_t>(rows.size()), std::move(arrays))));
  }

  void commit(const Json& metadata) {
    require(writer_->AddKeyValueMetadata(
        arrow::key_value_metadata({{"keel.format", kTokenFormat}, {"keel.step", metadata.dump()}})));
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
  std::shared_ptr<TokenFileSink> sink_;
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
void TokenFile::commit(const Json& metadata) { writer_->commit(metadata); }

#else

void require_token_files() {
  fail(ExitCode::kBadConfiguration, "record.tokens writes Parquet, but this program was built without Arrow. Install ",
       "the Python package pyarrow and rebuild, or set record.tokens=none");
}

class TokenFile::Writer {};
TokenFile::TokenFile(const std::filesystem::path&, int64_t) { require_token_files(); }
TokenFile::~TokenFile() = default;
void TokenFile::add(std::span<const TokenRow>) {}
void TokenFile::commit(const Json&) {}

#endif

void require_no_link(const std::filesystem::path& folder) {
  if (!link_target(folder)) return;
  fail(ExitCode::kBadInput, folder.string(), ": is a link, so its token records may belong to another run. Remove the ",
       "link, or set record.tokens=none");
}

}  // namespace keel
