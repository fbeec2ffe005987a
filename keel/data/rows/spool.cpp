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

constexpr size_t kPendingBytes = size_t{256} << 10;

std::string temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

[[noreturn]] void refuse(const std::string& origin, const std::string& folder, const char* what) {
  fail(ExitCode::kHealthGuard, origin, ": unpacking it into a temporary file in ", folder, " failed: ", what,
       "; make room there, set TMPDIR to a folder on a larger disk, or unpack it to JSON lines yourself");
}

}  // namespace

Spool::Spool(const std::filesystem::path& origin, uint64_t origin_bytes, const UnpackLimits& limits)
    : origin_(origin.string()),
      folder_(temporary_folder()),
      origin_bytes_(origin_bytes),
      limits_(limits),
      scanner_(std::make_unique<LineScanner>(
          [this](const TextLine& line, uint64_t offset) {
            index_.add(line, offset);
            return true;
          },
          /*keep_text=*/false)) {
  std::string name = folder_ + "/keel-rows-XXXXXX";
  handle_ = std::make_shared<FileHandle>(mkostemp(name.data(), O_CLOEXEC));
  if (!handle_->is_open()) refuse(origin_, folder_, std::strerror(errno));
  unlink(name.c_str());
}

void Spool::write(std::string_view bytes) {
  scanner_->add(bytes);
  if (const size_t newline = bytes.rfind('\n'); newline != std::string_view::npos) {
    whole_bytes_ = this->bytes() + newline + 1;
    whole_lines_ += static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  }
  pending_ += bytes;
  if (pending_.size() < kPendingBytes) return;
  check_size();
  flush();
}

void Spool::check_size() const {
  const bool unfolds = bytes() > limits_.harmless && bytes() / limits_.expansion > origin_bytes_;
  if (!unfolds && bytes() <= limits_.total) return;
  fail(ExitCode::kBadInput, origin_, ": its ", origin_bytes_, " bytes unpack to more than ", bytes(), "; wanted ",
       unfolds
           ? "at most " + std::to_string(limits_.expansion) + " times as many, for files made to fill disks have more"
           : "at most " + std::to_string(limits_.total),
       ". If it is sound, unpack it yourself: JSON lines are read where they lie, however long");
}

void Spool::flush() {
  index_.add_bytes(pending_);
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const ssize_t written = ::write(handle_->get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse(origin_, folder_, std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(written));
    bytes_ += static_cast<uint64_t>(written);
  }
  pending_.clear();
}

LineFile Spool::finish(LastLine last_line) && {
  check_size();
  flush();
  const bool keeps = last_line == LastLine::kKeep;
  if (keeps) scanner_->finish();
  const auto read_at = [handle = handle_, origin = origin_](uint64_t offset, std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t got = pread(handle->get(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        fail(ExitCode::kHealthGuard, origin,
             ": reading its temporary file failed: ", got < 0 ? std::strerror(errno) : "it has become shorter");
      to = to.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
  };
  return LineFile(read_at, keeps ? bytes_ : whole_bytes_, std::move(index_));
}

}  // namespace keel
