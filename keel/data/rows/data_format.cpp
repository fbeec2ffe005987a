#include "keel/data/rows/data_format.h"

#include <algorithm>
#include <array>
#include <string>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

struct FormatSignature {
  DataFormat format;
  std::string_view name, magic, ending;
};
constexpr std::array kSignatures = {
    FormatSignature{DataFormat::kGzip, "gzip", "\x1f\x8b", ".gz"},
    FormatSignature{DataFormat::kZstd, "zstd", "\x28\xb5\x2f\xfd", ".zst"},
    FormatSignature{DataFormat::kParquet, "Parquet", "PAR1", ".parquet"},
};

struct UnsupportedArchive {
  std::string_view name, magic, unpack;
};
constexpr std::array kArchives = {
    UnsupportedArchive{"xz", std::string_view("\xfd\x37zX"), "xz -d"},
    UnsupportedArchive{"zip", "PK\x03\x04", "unzip"},
    UnsupportedArchive{"lz4", "\x04\x22\x4d\x18", "lz4 -d"},
    UnsupportedArchive{"bzip2", "BZh", "bzip2 -d"},
};

/// Recognises a zstd frame without data, which pzstd writes first: magic 0x184D2A50 to 0x184D2A5F, little-endian.
bool starts_with_skippable_frame(std::string_view front) {
  return front.size() == 4 && front.substr(1) == "\x2a\x4d\x18" && (front[0] & 0xf0) == 0x50;
}

/// Returns the lower-case ending before .gz or .zst: ".csv" of "rows.CSV.gz".
std::string text_ending(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  return lower_case((ending == ".gz" || ending == ".zst" ? path.stem() : path).extension().string());
}

}  // namespace

DataFormat data_format(const std::filesystem::path& path) {
  const InputFile file = InputFile::open(path);
  std::string front(static_cast<size_t>(std::min<uint64_t>(file.size(), 4)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(front)));
  if (starts_with_skippable_frame(front)) return DataFormat::kZstd;
  for (const FormatSignature& signature : kSignatures) {
    if (front.starts_with(signature.magic)) return signature.format;
    if (path.extension() == signature.ending)
      fail(ExitCode::kBadInput, path.string(), ": its name ends in ", signature.ending, ", but it is not ",
           signature.name, " data", front.empty() ? " (it is empty)" : "",
           ". Fix: download the file again, or rename it");
  }
  for (const UnsupportedArchive& archive : kArchives)
    if (front.starts_with(archive.magic) && path.extension() != ".xlsx")
      fail(ExitCode::kBadInput, path.string(), ": ", archive.name, " files are not supported. Fix: unpack it (",
           archive.unpack, "), or pack it with gzip or zstd");
  return DataFormat::kText;
}

TextFormat text_format(const std::filesystem::path& path, std::string_view beginning) {
  if (beginning.starts_with(kByteOrderMark)) beginning.remove_prefix(kByteOrderMark.size());
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  const char opening = first == std::string_view::npos ? ' ' : beginning[first];
  const bool json = opening == '{' || opening == '[';
  const std::string ending = text_ending(path);
  for (const char* table : {".tsv", ".xlsx", ".xls", ".arrow", ".feather"})
    if (ending == table && !json)
      fail(ExitCode::kBadInput, path.string(), ": ", table,
           " files are not supported. Fix: save it as JSON lines, CSV or Parquet");
  if (ending == ".csv" && json)
    fail(ExitCode::kBadInput, path.string(), ": its name ends in .csv, but it holds JSON. Fix: rename it to .jsonl");
  if (opening == '[') return TextFormat::kJsonList;
  return ending == ".csv" ? TextFormat::kCsv : TextFormat::kJsonLines;
}

bool has_arrow() {
#ifdef KEEL_HAS_ARROW
  return true;
#else
  return false;
#endif
}

void require_arrow(const std::filesystem::path& path, std::string_view what) {
  if (!has_arrow())
    fail(ExitCode::kBadConfiguration, path.string(), ": this build of keel does not read ", what,
         ". Fix: install the Python package pyarrow and build again, or convert the file to JSON lines");
}

}  // namespace keel
