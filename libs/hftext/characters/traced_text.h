#pragma once

// A text that tracks which of its bytes are untrusted. Only trusted text may contain special tokens.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace keel {

/// [begin, end) in bytes of a text.
struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

/// Sorted and non-empty ranges that neither overlap nor touch.
using ByteRanges = std::vector<ByteRange>;

/// Intersects the ranges with [begin, end); the result is relative to `begin`.
ByteRanges ranges_within(std::span<const ByteRange> ranges, size_t begin, size_t end);
/// touches(): the ranges contain a byte of [begin, end). covers(): they contain all of its bytes.
bool touches(std::span<const ByteRange> ranges, size_t begin, size_t end);
bool covers(std::span<const ByteRange> ranges, size_t begin, size_t end);

class TracedText {
 public:
  TracedText() = default;
  explicit TracedText(std::string bytes, bool is_untrusted = false) : bytes_(std::move(bytes)) {
    if (is_untrusted) mark(0, bytes_.size());
  }

  const std::string& bytes() const { return bytes_; }
  const ByteRanges& untrusted() const { return untrusted_; }
  bool has_untrusted() const { return !untrusted_.empty(); }
  size_t size() const { return bytes_.size(); }
  /// Memory used by the ranges, in bytes.
  size_t range_bytes() const { return untrusted_.size() * sizeof(ByteRange); }

  void append(std::string_view bytes, bool is_untrusted = false) {
    bytes_ += bytes;
    if (is_untrusted) mark(bytes_.size() - bytes.size(), bytes_.size());
  }
  void append(const TracedText& text) { append(text, 0, text.size()); }
  /// The bytes [begin, end) of another text.
  void append(const TracedText& text, size_t begin, size_t end);
  TracedText part(size_t begin, size_t end) const {
    TracedText result;
    result.append(*this, begin, end);
    return result;
  }

 private:
  void mark(size_t begin, size_t end);

  std::string bytes_;
  ByteRanges untrusted_;
};

}  // namespace keel
