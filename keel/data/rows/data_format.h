#pragma once

#include <filesystem>
#include <string_view>

namespace keel {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// How a data file is packed, by its first bytes.
enum class DataFormat { kText, kGzip, kZstd, kParquet };

/// What the text of a data file is, packed or not.
enum class TextFormat { kJsonLines, kJsonList, kCsv };

/// Fails where the name promises another format than the bytes hold, and for other kinds of archives.
DataFormat data_format(const std::filesystem::path& path);

/// Decides by the beginning of the text and, for CSV, by the name (`rows.csv`, also packed as `rows.csv.gz`). Fails
/// where the name promises CSV and the text is JSON, and for tables of other kinds (.tsv, .xlsx, ...).
TextFormat text_format(const std::filesystem::path& path, std::string_view beginning);

/// Whether this build has Arrow, which reads everything but JSON lines and JSON lists.
bool has_arrow();

/// Fails without Arrow, naming the file, `what` is in it, and the fix.
void require_arrow(const std::filesystem::path& path, std::string_view what);

}  // namespace keel
