#include "keel/data/rows/parquet_rows.h"

#include "keel/data/rows/data_format.h"

#ifdef KEEL_HAS_ARROW
#include <arrow/record_batch.h>

#include "keel/core/error.h"
#include "keel/core/files/parquet_file.h"
#include "keel/data/rows/arrow_json.h"
#endif

namespace keel {

#ifdef KEEL_HAS_ARROW
namespace {

constexpr int64_t kRowsAtOnce = 64;

std::unique_ptr<parquet::arrow::FileReader> open_valid(const std::filesystem::path& path, arrow::MemoryPool& memory) {
  std::unique_ptr<parquet::arrow::FileReader> reader;
  const std::string problem = arrow_problem([&] { return open_parquet(path, memory, kRowsAtOnce).Value(&reader); });
  if (!problem.empty())
    fail(ExitCode::kBadInput, path.string(), ": not a valid Parquet file: ", problem, ". Fix: download the file again");
  return reader;
}

class GroupUnpacker {
 public:
  GroupUnpacker(int group, int64_t rows, Spool& spool) : group_(group), rows_(rows), spool_(spool) {}

  void unpack(parquet::arrow::FileReader& reader) {
    const std::string problem = arrow_problem([&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(const auto batches, reader.GetRecordBatchReader({group_}));
      while (row_ < rows_) {
        ARROW_ASSIGN_OR_RAISE(const auto batch, batches->Next());
        if (batch == nullptr) return arrow::Status::Invalid("the row group ends early");
        add(*batch);
      }
      return arrow::Status::OK();
    });
    if (!problem.empty()) skip_rest(problem);
  }

 private:
  void add(const arrow::RecordBatch& batch) {
    const bool is_valid = batch.ValidateFull().ok();
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      const arrow::Status status = is_valid ? arrow::Status::OK() : batch.Slice(i, 1)->ValidateFull();
      write_line(status.ok() ? row_text(batch, i) : "!1 " + arrow_message(status.message()));
      ++row_;
    }
  }

  static std::string row_text(const arrow::RecordBatch& batch, int64_t index) {
    int64_t budget = kMaxLineBytes;
    Json row = Json::object();
    auto& columns = row.get_ref<Json::object_t&>();
    try {
      for (int c = 0; c < batch.num_columns(); ++c)
        columns.emplace_back(batch.column_name(c), arrow_to_json(*batch.column(c), index, budget));
    } catch (const RowTooLarge&) {
      return "!1 a row of more than " + std::to_string(kMaxLineBytes) + " bytes";
    }
    return row.dump();
  }

  /// Reports the rest of the row group as unreadable.
  void skip_rest(const std::string& reason) {
    if (row_ < rows_) write_line("!" + std::to_string(rows_ - row_) + " " + reason);
    row_ = rows_;
  }

  void write_line(const std::string& text) {
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
  arrow::CappedMemoryPool memory(arrow::system_memory_pool(), kMaxParquetMemory);
  const auto reader = open_valid(path, memory);
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    const int64_t rows = reader->parquet_reader()->metadata()->RowGroup(group)->num_rows();
    GroupUnpacker(group, rows, spool).unpack(*reader);
  }
}

#else

void unpack_parquet(const std::filesystem::path& path, Spool&) { require_arrow(path, "Parquet files"); }

#endif

}  // namespace keel
