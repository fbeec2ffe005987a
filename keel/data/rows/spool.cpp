#include "keel/data/rows/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "keel/core/error.h"

namespace keel {
namespace {

std::string temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

}  // namespace

Spool::Spool(const std::filesystem::path& origin, uint64_t origin_bytes, const UnpackLimits& limits)
    : origin_(origin.string()), folder_(temporary_folder()), origin_bytes_(origin_bytes), limits_(limits) {
  std::string name = folder_ + "/keel-rows-XXXXXX";
  handle_ = FileHandle(mkostemp(name.data(), O_CLOEXEC));
  if (!handle_.is_open()) fail_on_io(errno);
  unlink(name.c_str());
}

void Spool::fail_on_io(int error) const {
  fail(ExitCode::kHealthGuard, origin_, ": unpacking it into a temporary file in ", folder_,
       " failed: ", std::strerror(error),
       ". Fix: free space there, set TMPDIR to a folder on a larger disk, or unpack it to JSON lines yourself");
}

void Spool::write(std::string_view bytes) {
  constexpr size_t kPendingBytes = size_t{256} << 10;
  if (const size_t newline = bytes.rfind('\n'); newline != std::string_view::npos) {
    whole_bytes_ = this->bytes() + newline + 1;
    whole_lines_ += static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  }
  pending_ += bytes;
  if (pending_.size() >= kPendingBytes) flush();
}

void Spool::flush() {
  const bool exceeds_ratio = bytes() > limits_.harmless && bytes() / limits_.expansion > origin_bytes_;
  if (exceeds_ratio || bytes() > limits_.total)
    fail(ExitCode::kBadInput, origin_, ": its ", origin_bytes_, " bytes unpack to more than ", bytes(), " (at most ",
         exceeds_ratio ? std::to_string(limits_.expansion) + " times, as a guard against decompression bombs"
                       : std::to_string(limits_.total),
         "). Fix: if the file is trusted, unpack it yourself; JSON lines have no limit");
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const ssize_t written = ::write(handle_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_on_io(errno);
    rest.remove_prefix(static_cast<size_t>(written));
    written_ += static_cast<uint64_t>(written);
  }
  pending_.clear();
}

LineFile Spool::finish(LastLine last_line) {
  flush();
  if (last_line == LastLine::kDropUnlessWhole && ftruncate(handle_.get(), static_cast<off_t>(whole_bytes_)) != 0)
    fail_on_io(errno);
  return LineFile::open("/proc/self/fd/" + std::to_string(handle_.get()));
}

}  // namespace keel
