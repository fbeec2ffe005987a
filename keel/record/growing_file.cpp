#include "keel/record/growing_file.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigits = 8;  // of a CRC-32C

/// Told of each whole line, without its newline, and of where the next one begins, until it answers false.
using LineVisitor = std::function<bool(std::string_view line, uint64_t next)>;

/// Reads in blocks: the file may be larger than memory.
void visit_lines(const fs::path& path, const LineVisitor& visitor) {
  const InputFile file = InputFile::open(path);
  constexpr uint64_t kBlock = 1 << 20;
  std::string text;  // from the beginning of a line on
  for (uint64_t read = 0; read < file.size();) {
    const uint64_t length = std::min(kBlock, file.size() - read), begin = read - text.size();
    text.resize(text.size() + length);
    file.read_at(read, std::as_writable_bytes(std::span(text).last(length)));
    read += length;
    size_t line = 0;
    for (size_t end; (end = text.find('\n', line)) != std::string::npos; line = end + 1)
      if (!visitor(std::string_view(text).substr(line, end - line), begin + end + 1)) return;
    text.erase(0, line);
  }
}

bool has_file(const fs::path& path) {
  std::error_code unseen;
  return fs::is_regular_file(path, unseen);
}

}  // namespace

GrowingFile GrowingFile::open(const fs::path& path) {
  AppendFile file = AppendFile::open(path);
  LineChecksums checksums;
  visit_lines(path, [&](std::string_view line, uint64_t) {
    checksums.push_back(crc32c(line));
    return true;
  });
  return {std::move(file), std::move(checksums)};
}

void GrowingFile::add(std::string_view line) {
  if (!failure_) {
    try {
      file_.append_line(line);
    } catch (const Error& error) {
      if (error.code() == ExitCode::kHealthGuard) throw;  // a full disk, say
      failure_ = error.what();
    }
  }
  if (failure_) unwritten_.emplace_back(line);
  checksums_.push_back(crc32c(line));
}

void GrowingFile::copy_to(const fs::path& path) const {
  file_.copy_to(path);
  if (unwritten_.empty()) return;
  AppendFile copy = AppendFile::open(path);
  for (const std::string& line : unwritten_) copy.append_line(line);
  copy.sync();
}

std::optional<std::string> find_changed_line(const fs::path& path, const LineChecksums& remembered) {
  if (remembered.empty()) return std::nullopt;
  if (!has_file(path)) return "it is missing";
  size_t unchanged = 0;
  bool changed = false;
  visit_lines(path, [&](std::string_view line, uint64_t) {
    changed = crc32c(line) != remembered[unchanged];
    return !changed && ++unchanged < remembered.size();
  });
  if (changed) return "line " + std::to_string(unchanged + 1) + " is not what was written there";
  if (unchanged < remembered.size())
    return "it ends after line " + std::to_string(unchanged) + " of " + std::to_string(remembered.size());
  return std::nullopt;
}

void cut_to_lines(const fs::path& path, size_t count) {
  if (!has_file(path)) return;
  uint64_t size = 0;
  visit_lines(path, [&](std::string_view, uint64_t next) {
    if (count == 0) return false;
    size = next;
    return --count > 0;
  });
  cut_to_size(path, size);
}

std::optional<fs::path> leave_unchanged_lines(const fs::path& path, const LineChecksums& remembered) {
  std::optional<fs::path> kept;
  if (has_file(path)) {
    for (int number = 1; !kept || has_file(*kept); ++number)
      kept = path.string() + ".damaged" + (number > 1 ? "-" + std::to_string(number) : "");
    copy_durably(path, *kept);
  }
  DurableFile sound(path);
  auto next = remembered.begin();
  if (kept)
    visit_lines(*kept, [&](std::string_view line, uint64_t) {
      const auto found = std::find(next, remembered.end(), crc32c(line));
      if (found == remembered.end()) return true;
      sound.write(std::string(line) + "\n");
      next = found + 1;
      return next != remembered.end();
    });
  sound.commit();
  return kept;
}

std::string to_hex(const LineChecksums& checksums) {
  std::string text;
  text.reserve(checksums.size() * kHexDigits);
  for (const uint32_t checksum : checksums) {
    char digits[kHexDigits + 1];
    snprintf(digits, sizeof(digits), "%08x", checksum);
    text += digits;
  }
  return text;
}

std::optional<LineChecksums> from_hex(std::string_view text) {
  LineChecksums checksums;
  for (; text.size() >= kHexDigits; text.remove_prefix(kHexDigits)) {
    uint32_t& checksum = checksums.emplace_back();
    const auto [end, error] = std::from_chars(text.data(), text.data() + kHexDigits, checksum, 16);
    if (error != std::errc() || end != text.data() + kHexDigits) return std::nullopt;
  }
  return text.empty() ? std::optional(std::move(checksums)) : std::nullopt;
}

}  // namespace keel
