#include "keel/record/checksummed_file.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "keel/core/error.h"
#include "keel/core/files/line_reader.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigits = 8;                    // of a CRC-32C
constexpr size_t kNoLimit = std::string::npos - 1;  // LineReader adds 1

/// Gets each complete line without its newline, and the offset of the next line. Returns whether to continue.
using LineVisitor = std::function<bool(std::string_view line, uint64_t next)>;

void visit_lines(const fs::path& path, const LineVisitor& visitor) {
  LineReader lines = LineReader::open(path);
  uint64_t next = 0;
  for (std::string line; lines.next(line, kNoLimit) && lines.had_newline();) {
    next += line.size() + 1;
    if (!visitor(line, next)) return;
  }
}

bool has_file(const fs::path& path) { return path_exists(path) && !is_folder(path); }

}  // namespace

ChecksummedFile ChecksummedFile::open(const fs::path& path) {
  AppendFile file = AppendFile::open(path);
  LineChecksums checksums;
  visit_lines(path, [&](std::string_view line, uint64_t) {
    checksums.push_back(crc32c(line));
    return true;
  });
  return {std::move(file), std::move(checksums)};
}

std::optional<std::string> find_changed_line(const fs::path& path, const LineChecksums& expected) {
  if (expected.empty()) return std::nullopt;
  if (!has_file(path)) return "it is missing";
  size_t unchanged = 0;
  bool changed = false;
  visit_lines(path, [&](std::string_view line, uint64_t) {
    changed = crc32c(line) != expected[unchanged];
    return !changed && ++unchanged < expected.size();
  });
  if (changed) return "line " + std::to_string(unchanged + 1) + " was changed";
  if (unchanged < expected.size())
    return "it ends after line " + std::to_string(unchanged) + " of " + std::to_string(expected.size());
  return std::nullopt;
}

void truncate_to_lines(const fs::path& path, size_t count) {
  if (!has_file(path)) return;
  uint64_t size = 0;
  visit_lines(path, [&](std::string_view, uint64_t next) {
    if (count == 0) return false;
    size = next;
    return --count > 0;
  });
  truncate_file(path, size);
}

std::optional<fs::path> restore_unchanged_lines(const fs::path& path, const LineChecksums& expected) {
  std::optional<fs::path> old_copy;
  if (has_file(path)) {
    for (int number = 1; !old_copy || has_file(*old_copy); ++number)
      old_copy = path.string() + ".damaged" + (number > 1 ? "-" + std::to_string(number) : "");
    copy_durably(path, *old_copy);
  }
  DurableFile restored(path);
  auto next = expected.begin();
  if (old_copy)
    visit_lines(*old_copy, [&](std::string_view line, uint64_t) {
      const auto found = std::find(next, expected.end(), crc32c(line));
      if (found == expected.end()) return true;
      restored.write(std::string(line) + "\n");
      next = found + 1;
      return next != expected.end();
    });
  restored.commit();
  return old_copy;
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
