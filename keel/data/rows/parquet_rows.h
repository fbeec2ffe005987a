#pragma once

#include <filesystem>

#include "keel/data/rows/spool.h"

namespace keel {

/// Writes the rows of a Parquet file to the spool, each as a line "GROUP ROW JSON". Unreadable rows become one line
/// "GROUP ROW !ROWS REASON". Reads a few rows at a time, so that memory does not grow with the file. NaN and infinity
/// become null; dates, times and decimals become text.
void unpack_parquet(const std::filesystem::path& path, Spool& spool);

}  // namespace keel
