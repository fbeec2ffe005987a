#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "keel/data/rows/data_format.h"

namespace keel {

/// Decompresses a gzip or zstd file of any number of members or frames and passes the bytes on in pieces.
/// Returns why the data ended early; empty if the file is complete.
std::string decompress(const std::filesystem::path& path, DataFormat format,
                       const std::function<void(std::string_view piece)>& visit);

}  // namespace keel
