#include "keel/data/rows/parquet_rows.h"

#include "keel/data/rows/byte_source.h"

#ifdef KEEL_HAS_PARQUET
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>

#include "keel/core/error.h"
#include "keel/data/rows/arrow_json.h"
#endif

namespace keel {

#ifdef KEEL_HAS_PARQUET
namespace {

constexpr int64_t kRowsAtOnce = 64;
constexpr int64_t kMaxMemory = int64_t{1} << 30;  // for the pages and values of these rows, whatever a file claims

/// One line: the library's messages can have several.
std::string sentence(const std::string& message) {
  std::string line = message.substr(0, message.find('\n'));
  return line.size() > 300 ? line.substr(0, 300) + "..." : line;
}

std::unique_ptr<parquet::arrow::FileReader> open_parquet(const std::filesystem::path& path, arrow::MemoryPool& memory) {
  parquet::ReaderProperties properties(&memory);
  properties.enable_buffered_stream();  // pages as they are needed, not whole column chunks
  properties.set_page_checksum_verification(true);
  parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
  arrow_properties.set_batch_size(kRowsAtOnce);
  arrow_properties.set_pre_buffer(false);
  parquet::arrow::FileReaderBuilder builder;
  std::string problem;
  try {
    auto file = arrow::io::ReadableFile::Open(path.string());
    arrow::Status status = file.status();
    if (status.ok()) status = builder.Open(*file, properties);
    if (status.ok()) {
      auto reader = builder.memory_pool(&memory)->properties(arrow_properties)->Build();
      if (reader.ok()) return std::move(*reader);
      status = reader.status();
    }
    problem = status.message();
  } catch (const std::exception& error) {  // the library throws inside, and not all of it is caught there
    problem = error.what();
  }
  fail(ExitCode::kBadInput, path.string(), ": not a sound Parquet file: ", sentence(problem), "; get the file again");
}

class GroupUnpacker {
 public:
  GroupUnpacker(int group, int64_t rows, Spool& spool) : group_(group), rows_(rows), spool_(spool) {}

  void unpack(parquet::arrow::FileReader& reader) {
    try {
      auto batches = reader.GetRecordBatchReader({group_});
      if (!batches.ok()) return lose(batches.status().message());
      while (row_ < rows_) {
        auto batch = (*batches)->Next();
        if (!batch.ok()) return lose(batch.status().message());
        if (*batch == nullptr) return lose("the row group ends early");
        add(**batch);
      }
    } catch (const Error&) {  // of the spool's, which is full
      throw;
    } catch (const std::exception& error) {
      lose(error.what());
    }
  }

 private:
  void add(const arrow::RecordBatch& batch) {
    const bool sound = batch.ValidateFull().ok();
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      const arrow::Status status = sound ? arrow::Status::OK() : batch.Slice(i, 1)->ValidateFull();
      put(status.ok() ? line_of(batch, i) : "!1 " + sentence(status.message()));
      ++row_;
    }
  }

  static std::string line_of(const arrow::RecordBatch& batch, int64_t index) {
    int64_t room = kMaxLineBytes;
    Json row = Json::object();
    auto& columns = row.get_ref<Json::object_t&>();
    try {
      for (int c = 0; c < batch.num_columns(); ++c)
        columns.emplace_back(batch.column_name(c), json_of(*batch.column(c), index, room));
    } catch (const RowTooLarge&) {
      return "!1 a row of more than " + std::to_string(kMaxLineBytes) + " bytes";
    }
    return row.dump();
  }

  void lose(const std::string& reason) {
    if (row_ < rows_) put("!" + std::to_string(rows_ - row_) + " " + sentence(reason));
    row_ = rows_;
  }

  void put(const std::string& text) {
    spool_.write(std::to_string(group_) + " " + std::to_string(row_) + " ");
    spool_.write(text);
    spool_.write("\n");
  }

  const int group_;
  const int64_t rows_;
  int64_t row_ = 0;
  Spool& spool_;
};

}  // namespace

void unpack_parquet(const std::filesystem::path& path, Spool& spool) {
  arrow::CappedMemoryPool memory(arrow::system_memory_pool(), kMaxMemory);
  const auto reader = open_parquet(path, memory);
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    const int64_t rows = reader->parquet_reader()->metadata()->RowGroup(group)->num_rows();
    GroupUnpacker(group, rows, spool).unpack(*reader);
  }
}

#else

void unpack_parquet(const std::filesystem::path& path, Spool&) { require_format(path, DataFormat::kParquet); }

#endif

}  // namespace keel
