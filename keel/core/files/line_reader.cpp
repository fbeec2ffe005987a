#include "keel/core/files/line_reader.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "keel/core/files/failed_call.h"
#include "keel/core/files/retry_on_eintr.h"

namespace keel {

LineReader LineReader::open(const std::filesystem::path& path) {
  const auto file = std::make_shared<const InputFile>(InputFile::open(path));
  return LineReader([file, offset = uint64_t{0}](std::span<char> to) mutable {
    const auto size = static_cast<size_t>(std::min<uint64_t>(to.size(), file->size() - offset));
    file->read_at(offset, std::as_writable_bytes(to.first(size)));
    offset += size;
    return size;
  });
}

LineReader LineReader::of(FileHandle handle, std::string name) {
  const auto open = std::make_shared<const FileHandle>(std::move(handle));
  return LineReader([open, name = std::move(name)](std::span<char> to) {
    const ssize_t count = retry_on_eintr([&] { return ::read(open->get(), to.data(), to.size()); });
    if (count < 0) fail_to_read(name, errno);
    return static_cast<size_t>(count);
  });
}

bool LineReader::next(std::string& line, size_t max_bytes) {
  line.clear();
  had_newline_ = false;
  while (line.size() <= max_bytes) {
    if (position_ == end_) {
      end_ = read_(buffer_);
      position_ = 0;
      if (end_ == 0) return !line.empty();
    }
    const std::string_view rest =
        std::string_view(buffer_).substr(position_, std::min(end_ - position_, max_bytes + 1 - line.size()));
    const size_t newline = rest.find('\n');
    line.append(rest.substr(0, newline));
    if (newline != std::string_view::npos) {
      position_ += newline + 1;
      return had_newline_ = true;
    }
    position_ += rest.size();
  }
  return true;
}

}  // namespace keel
