#pragma once

#include <filesystem>

#include "keel/data/rows/spool.h"

namespace keel {

/// Writes the rows of a Parquet file to the spool, each as a line "GROUP ROW JSON", a few at a time, so
/// memory does not grow with the file. What cannot be read becomes a line "GROUP ROW !ROWS REASON", and the next row
/// group follows. Null, NaN and infinity become null, dates, times and decimals their text.
void unpack_parquet(const std::filesystem::path& path, Spool& spool);

}  // namespace keel
