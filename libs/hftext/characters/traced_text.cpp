#include "libs/hftext/characters/traced_text.h"

#include <algorithm>

namespace keel {
namespace {

/// Returns the ranges that overlap [begin, end).
std::span<const ByteRange> overlapping(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  const auto first = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                      [](size_t offset, const ByteRange& range) { return offset < range.end; });
  const auto last = std::lower_bound(first, ranges.end(), end,
                                     [](const ByteRange& range, size_t offset) { return range.begin < offset; });
  return {first, last};
}

}  // namespace

ByteRanges ranges_within(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  ByteRanges result;
  for (const ByteRange& range : overlapping(ranges, begin, end))
    result.push_back({std::max(range.begin, begin) - begin, std::min(range.end, end) - begin});
  return result;
}

bool touches(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  return !overlapping(ranges, begin, end).empty();
}

bool covers(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  const std::span<const ByteRange> found = overlapping(ranges, begin, end);
  return !found.empty() && found[0].begin <= begin && found[0].end >= end;
}

void TracedText::append(const TracedText& text, size_t begin, size_t end) {
  const size_t offset = bytes_.size();
  bytes_.append(text.bytes_, begin, end - begin);
  for (const ByteRange& range : overlapping(text.untrusted_, begin, end))
    mark(offset + std::max(range.begin, begin) - begin, offset + std::min(range.end, end) - begin);
}

void TracedText::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!untrusted_.empty() && untrusted_.back().end == begin) {
    untrusted_.back().end = end;
  } else {
    untrusted_.push_back({begin, end});
  }
}

}  // namespace keel
