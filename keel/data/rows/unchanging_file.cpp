#include "keel/data/rows/unchanging_file.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"

namespace keel {
namespace {

constexpr uint64_t kPiece = uint64_t{16} << 10;  // a row spans few pieces
constexpr uint64_t kAtOnce = 64 * kPiece;

}  // namespace

UnchangingFile::UnchangingFile(const std::filesystem::path& path,
                               const std::function<void(std::string_view piece)>& visit)
    : file_(InputFile::open(path)) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kAtOnce, size())));
  for (uint64_t offset = 0; offset < size(); offset += buffer.size()) {
    const std::span<std::byte> bytes = std::span(buffer).first(std::min<uint64_t>(buffer.size(), size() - offset));
    file_.read_at(offset, bytes);
    for (size_t at = 0; at < bytes.size(); at += kPiece)
      checksums_.push_back(crc32c(bytes.subspan(at, std::min<size_t>(kPiece, bytes.size() - at))));
    visit({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

void UnchangingFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  std::vector<std::byte> buffer(kPiece);
  while (!to.empty()) {
    const uint64_t number = offset / kPiece, begin = number * kPiece;
    const std::span<std::byte> piece = std::span(buffer).first(std::min(kPiece, size() - begin));
    file_.read_at(begin, piece);
    if (crc32c(piece) != checksums_[number])
      fail(ExitCode::kBadInput, "cannot read ", file_.path(), ": its bytes ", begin, " to ", begin + piece.size() - 1,
           " have changed since it was first read. Fix: restore the old content to continue, ",
           "or start a new run with the new content");
    const size_t skipped = static_cast<size_t>(offset - begin), taken = std::min(to.size(), piece.size() - skipped);
    std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(skipped), taken, to.begin());
    to = to.subspan(taken);
    offset += taken;
  }
}

}  // namespace keel
