#pragma once

#include <filesystem>
#include <string_view>

namespace keel {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The container of a data file, by its first bytes.
enum class DataFormat { kText, kGzip, kZstd, kParquet };

/// The format of the (unpacked) text of a data file.
enum class TextFormat { kJsonLines, kJsonList, kCsv };

/// Fails if the file name contradicts the content, and for unsupported archives.
DataFormat data_format(const std::filesystem::path& path);

/// Decides by the beginning of the text and, for CSV, by the name (`rows.csv` or `rows.csv.gz`). Fails if a .csv file
/// holds JSON, and for other tables (.tsv, .xlsx, ...).
TextFormat text_format(const std::filesystem::path& path, std::string_view beginning);

/// Returns whether this build has Arrow, which reads everything except JSON lines and JSON lists.
bool has_arrow();

/// Fails if this build has no Arrow; the message names the file, its format `what` and the fix.
void require_arrow(const std::filesystem::path& path, std::string_view what);

}  // namespace keel
