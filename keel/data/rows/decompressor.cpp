#include "keel/data/rows/decompressor.h"

#ifdef KEEL_HAS_ARROW
#include <arrow/util/compression.h>

#include <algorithm>
#include <memory>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/parquet_file.h"
#endif

namespace keel {

#ifdef KEEL_HAS_ARROW

std::string decompress(const std::filesystem::path& path, DataFormat format,
                       const std::function<void(std::string_view piece)>& visit) {
  constexpr uint64_t kPieceBytes = uint64_t{1} << 17;
  const bool gzip = format == DataFormat::kGzip;
  const std::string name = gzip ? "gzip" : "zstd";
  const auto codec = arrow::util::Codec::Create(gzip ? arrow::Compression::GZIP : arrow::Compression::ZSTD);
  const auto decompressor = codec.ok() ? (*codec)->MakeDecompressor() : codec.status();
  if (!decompressor.ok()) fail(ExitCode::kInternal, "Arrow's ", name, " codec: ", decompressor.status().message());

  const InputFile file = InputFile::open(path);
  std::string compressed, output(kPieceBytes, '\0');
  uint64_t offset = 0;
  size_t used = 0;
  bool in_frame = true;  // in_frame a gzip member or zstd frame; a file without any is truncated
  while (true) {
    if (used == compressed.size()) {
      compressed.resize(static_cast<size_t>(std::min(kPieceBytes, file.size() - offset)));
      file.read_at(offset, std::as_writable_bytes(std::span(compressed)));
      offset += compressed.size();
      used = 0;
    }
    const size_t left = compressed.size() - used;
    if (left == 0 && !in_frame) return "";
    const auto* from = reinterpret_cast<const uint8_t*>(compressed.data()) + used;
    auto* to = reinterpret_cast<uint8_t*>(output.data());
    const auto result =
        (*decompressor)->Decompress(static_cast<int64_t>(left), from, static_cast<int64_t>(output.size()), to);
    if (!result.ok())
      return "damaged " + name + " data (" + arrow_message(result.status().message()) +
             "). Fix: download the file again";
    used += static_cast<size_t>(result->bytes_read);
    visit(std::string_view(output).substr(0, static_cast<size_t>(result->bytes_written)));
    in_frame = !(*decompressor)->IsFinished();
    if (!in_frame && !(*decompressor)->Reset().ok()) fail(ExitCode::kInternal, "Arrow's ", name, " codec has no reset");
    if (left == 0 && in_frame && result->bytes_written == 0)
      return "the " + name + " file is truncated here. Fix: download it again";
  }
}

#else

std::string decompress(const std::filesystem::path& path, DataFormat format,
                       const std::function<void(std::string_view piece)>&) {
  require_arrow(path, format == DataFormat::kGzip ? "gzip files" : "zstd files");
  return "";
}

#endif

}  // namespace keel
