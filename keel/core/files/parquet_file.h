#pragma once

// How a Parquet file is opened and read, whoever wrote it; sees Arrow, which may be missing.

#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <parquet/arrow/reader.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "keel/core/error.h"

namespace keel {

inline constexpr int64_t kMaxParquetMemory = int64_t{1} << 30;  // for pages and values at hand, whatever a file claims

/// So many rows at a time, page by page, in that memory; checksums of pages are verified.
arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> open_parquet(const std::filesystem::path& path,
                                                                        arrow::MemoryPool& memory,
                                                                        int64_t rows_at_once);

/// One line of a message of the library's, which can have several.
std::string arrow_message(const std::string& message);

/// What goes wrong in a call of the library, in one line; empty where nothing does. The library throws inside, and not
/// all of that is caught there; Errors, which are ours, pass.
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
