#include "keel/data/rows/unchanging_file.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"

namespace keel {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{16} << 10;  // a row spans few pieces
constexpr uint64_t kReadBytes = 64 * kPieceBytes;

}  // namespace

UnchangingFile::UnchangingFile(const std::filesystem::path& path,
                               const std::function<void(std::string_view piece)>& visit)
    : file_(InputFile::open(path)) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kReadBytes, size())));
  for (uint64_t offset = 0; offset < size(); offset += buffer.size()) {
    const std::span<std::byte> bytes = std::span(buffer).first(std::min<uint64_t>(buffer.size(), size() - offset));
    file_.read_at(offset, bytes);
    for (size_t begin = 0; begin < bytes.size(); begin += kPieceBytes)
      checksums_.push_back(crc32c(bytes.subspan(begin, std::min<size_t>(kPieceBytes, bytes.size() - begin))));
    visit({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

void UnchangingFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  std::vector<std::byte> buffer(kPieceBytes);
  while (!to.empty()) {
    const uint64_t index = offset / kPieceBytes, begin = index * kPieceBytes;
    const std::span<std::byte> piece = std::span(buffer).first(std::min(kPieceBytes, size() - begin));
    file_.read_at(begin, piece);
    if (crc32c(piece) != checksums_[index])
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
