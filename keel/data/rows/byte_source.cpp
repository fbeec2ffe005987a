#include "keel/data/rows/byte_source.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#ifdef KEEL_HAS_ZLIB
#include <zlib.h>
#endif
#ifdef KEEL_HAS_ZSTD
#include <zstd.h>
#endif

#include "keel/core/error.h"
#include "keel/core/files/file.h"

namespace keel {
namespace {

/// The compressed bytes, piece by piece.
class CompressedInput {
 public:
  explicit CompressedInput(const std::filesystem::path& path) : file_(InputFile::open(path)) {}

  std::span<const char> piece() const { return std::span(buffer_).subspan(used_, filled_ - used_); }
  void use(size_t bytes) { used_ += bytes; }
  /// Whether there are more bytes; reads some where the piece is used up.
  bool more() {
    if (used_ < filled_) return true;
    filled_ = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), file_.size() - offset_));
    file_.read_at(offset_, std::as_writable_bytes(std::span(buffer_).first(filled_)));
    offset_ += filled_;
    used_ = 0;
    return filled_ > 0;
  }

 private:
  InputFile file_;
  uint64_t offset_ = 0;
  size_t used_ = 0, filled_ = 0;
  std::vector<char> buffer_ = std::vector<char>(size_t{1} << 17);
};

[[maybe_unused]] std::string cut_off(const std::string& format) {
  return "the " + format + " file is cut off here: its bytes end before its data does; get it again";
}

#ifdef KEEL_HAS_ZLIB
/// Gzip members one after the other, as gzip itself reads them.
class GzipSource : public ByteSource {
 public:
  explicit GzipSource(const std::filesystem::path& path) : input_(path) {
    constexpr int kWindowBits = 15, kGzipOnly = 16;
    if (inflateInit2(&stream_, kWindowBits + kGzipOnly) != Z_OK) fail(ExitCode::kInternal, "zlib could not start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  size_t read(std::span<char> to) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to.size());
    while (stream_.avail_out > 0 && damage_.empty()) {
      if (!input_.more()) {
        if (inside_) damage_ = cut_off("gzip");
        break;
      }
      if (!inside_ && input_.piece().front() == 0) {
        skip_padding();
      } else {
        inflate_piece();
      }
    }
    return to.size() - stream_.avail_out;
  }

 private:
  void inflate_piece() {
    const std::span<const char> piece = input_.piece();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    inside_ = true;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    input_.use(piece.size() - stream_.avail_in);
    if (result == Z_STREAM_END) {
      inside_ = false;
      inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      damage_ = std::string("damaged gzip data (") + (stream_.msg != nullptr ? stream_.msg : "unknown") +
                "); get the file again";
    }
  }

  /// Zeros after the last member, which tapes leave and gzip ignores.
  void skip_padding() {
    for (const char byte : input_.piece())
      if (byte != 0) damage_ = "something else follows the gzip data; get the file again";
    input_.use(input_.piece().size());
  }

  CompressedInput input_;
  z_stream stream_{};
  bool inside_ = true;  // of a member: a file without even one is cut off
};
#endif

#ifdef KEEL_HAS_ZSTD
class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(const std::filesystem::path& path) : input_(path), stream_(ZSTD_createDStream()) {
    constexpr int kMaxWindowLog = 27;  // 128 MiB, the library's own limit: a file cannot ask for more memory
    if (!stream_) fail(ExitCode::kInternal, "libzstd could not start");
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  size_t read(std::span<char> to) override {
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    while (out.pos < out.size && damage_.empty()) {
      // With all input used there may still be output inside.
      const bool more = input_.more();
      const std::span<const char> piece = input_.piece();
      ZSTD_inBuffer in{piece.data(), piece.size(), 0};
      if (!more && !inside_) break;
      const size_t before = out.pos, wanted = ZSTD_decompressStream(stream_.get(), &out, &in);
      if (ZSTD_isError(wanted)) {
        damage_ = std::string("damaged zstd data (") + ZSTD_getErrorName(wanted) + "); get the file again";
        break;
      }
      input_.use(in.pos);
      inside_ = wanted != 0;
      if (!more && inside_ && out.pos == before) damage_ = cut_off("zstd");
    }
    return out.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  CompressedInput input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool inside_ = true;
};
#endif

struct FormatRow {
  DataFormat format;
  std::string_view name, magic, ending, package;
};

constexpr std::array kFormats = {
    FormatRow{DataFormat::kGzip, "gzip", "\x1f\x8b", ".gz", "zlib1g-dev"},
    FormatRow{DataFormat::kZstd, "zstd", "\x28\xb5\x2f\xfd", ".zst", "libzstd-dev"},
    FormatRow{DataFormat::kParquet, "Parquet", "PAR1", ".parquet", "pyarrow"},
};

/// Ways to pack a file that are not read, by its first four bytes.
struct Packed {
  std::string_view name, magic, unpack;
};
constexpr std::array kPacked = {
    Packed{"xz",
           "\xfd"
           "7zX",
           "xz -d"},
    Packed{"zip", "PK\x03\x04", "unzip"},
    Packed{"lz4", "\x04\x22\x4d\x18", "lz4 -d"},
};

void refuse_packed(const std::filesystem::path& path, std::string_view front) {
  const auto refuse = [&](std::string_view name, std::string_view unpack) {
    fail(ExitCode::kBadInput, path.string(), ": is packed with ", name, ", which is not read; unpack it (", unpack,
         "), or pack it with gzip or zstd");
  };
  if (path.extension() == ".xlsx") return;  // a zip inside, told as the table that it is
  for (const Packed& packed : kPacked)
    if (front == packed.magic) refuse(packed.name, packed.unpack);
  const bool bzip2 = front.size() == 4 && front.starts_with("BZh") && front[3] >= '1' && front[3] <= '9';
  if (bzip2) refuse("bzip2", "bzip2 -d");
}

/// Zstd's frames that hold no data, as pzstd puts them in front: 0x184D2A50 to 0x184D2A5F, low byte first.
bool starts_with_skippable_frame(std::string_view front) {
  return front.size() == 4 && front.substr(1) == "\x2a\x4d\x18" && (front[0] & 0xf0) == 0x50;
}

}  // namespace

DataFormat data_format(const std::filesystem::path& path) {
  const InputFile file = InputFile::open(path);
  std::string front(static_cast<size_t>(std::min<uint64_t>(file.size(), 4)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(front)));
  if (starts_with_skippable_frame(front)) return DataFormat::kZstd;
  for (const FormatRow& row : kFormats) {
    if (front.starts_with(row.magic)) return row.format;
    if (path.extension() == row.ending)
      fail(ExitCode::kBadInput, path.string(), ": its name ends in ", row.ending, ", but it holds no ", row.name,
           " data", front.empty() ? " (it is empty)" : "", "; get the file again or rename it");
  }
  refuse_packed(path, front);
  return DataFormat::kJsonLines;
}

bool can_read(DataFormat format) {
#ifdef KEEL_HAS_ZLIB
  if (format == DataFormat::kGzip) return true;
#endif
#ifdef KEEL_HAS_ZSTD
  if (format == DataFormat::kZstd) return true;
#endif
#ifdef KEEL_HAS_PARQUET
  if (format == DataFormat::kParquet) return true;
#endif
  return format == DataFormat::kJsonLines;
}

void require_format(const std::filesystem::path& path, DataFormat format) {
  if (can_read(format)) return;
  const FormatRow& row =
      *std::find_if(kFormats.begin(), kFormats.end(), [&](const FormatRow& r) { return r.format == format; });
  fail(ExitCode::kBadConfiguration, path.string(), ": this build of keel reads no ", row.name, " files; install ",
       row.package, " and build again, or convert the file to JSON lines");
}

std::unique_ptr<ByteSource> open_compressed(const std::filesystem::path& path, DataFormat format) {
  require_format(path, format);
#ifdef KEEL_HAS_ZLIB
  if (format == DataFormat::kGzip) return std::make_unique<GzipSource>(path);
#endif
#ifdef KEEL_HAS_ZSTD
  if (format == DataFormat::kZstd) return std::make_unique<ZstdSource>(path);
#endif
  fail(ExitCode::kInternal, path.string(), " is not compressed");
}

}  // namespace keel
