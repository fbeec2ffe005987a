#pragma once

// Opens untrusted Parquet files. Includes Arrow, which is an optional dependency.

#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <parquet/arrow/reader.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "keel/core/error.h"

namespace keel {

/// The limit for decoded pages and values, whatever a file claims.
inline constexpr int64_t kMaxParquetMemory = int64_t{1} << 30;

/// Opens a file that reads `rows_at_once` rows at a time, page by page, from `memory`. Verifies page checksums.
arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> open_parquet(const std::filesystem::path& path,
                                                                        arrow::MemoryPool& memory,
                                                                        int64_t rows_at_once);

/// Returns the first line of an Arrow message.
std::string arrow_message(const std::string& message);

/// Runs a call of Arrow and returns its error in one line, or an empty string. Also converts exceptions, because Arrow
/// does not catch all of them. Keel's Errors are rethrown.
template <class Call>
std::string arrow_problem(const Call& call) {
  arrow::Status status;
  try {
    status = call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    return arrow_message(error.what());
  }
  return status.ok() ? "" : arrow_message(status.message());
}

}  // namespace keel
