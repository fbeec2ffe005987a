#pragma once

// What Python's str knows about characters; see scripts/make_unicode_tables.py.

#include <cstddef>
#include <cstdint>

namespace keel::jinja {

/// The characters first, first + stride, ..., last become themselves + delta.
struct CaseRun {
  char32_t first, last;
  uint32_t stride;
  int32_t delta;
};
/// One character that becomes up to three; unused places are 0.
struct CaseExpansion {
  char32_t from, to[3];
};

// Lengths of runs of characters that lack and have the property, in turn.
extern const uint32_t kPrintable[], kAlpha[], kDecimal[], kDigit[], kNumeric[], kLower[], kUpper[], kTitle[],
    kCaseIgnorable[];
extern const size_t kPrintableSize, kAlphaSize, kDecimalSize, kDigitSize, kNumericSize, kLowerSize, kUpperSize,
    kTitleSize, kCaseIgnorableSize;

extern const CaseRun kToUpper[], kToLower[], kToTitle[];
extern const size_t kToUpperSize, kToLowerSize, kToTitleSize;
extern const CaseExpansion kToUpperMany[], kToLowerMany[], kToTitleMany[];
extern const size_t kToUpperManySize, kToLowerManySize, kToTitleManySize;

}  // namespace keel::jinja
