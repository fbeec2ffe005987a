#pragma once

// Character properties of Python's str; see scripts/make_unicode_tables.py.

#include <cstddef>
#include <cstdint>

namespace keel::jinja {

/// Maps the characters first, first + stride, ..., last to character + delta.
struct CaseRun {
  char32_t first, last;
  uint32_t stride;
  int32_t delta;
};
/// Maps one character to up to three; unused entries are 0.
struct CaseExpansion {
  char32_t from, to[3];
};

// Lengths of runs of characters, alternately without and with the property.
extern const uint32_t kPrintable[], kAlpha[], kDecimal[], kDigit[], kNumeric[], kLower[], kUpper[], kTitle[],
    kCaseIgnorable[];
extern const size_t kPrintableSize, kAlphaSize, kDecimalSize, kDigitSize, kNumericSize, kLowerSize, kUpperSize,
    kTitleSize, kCaseIgnorableSize;

extern const CaseRun kToUpper[], kToLower[], kToTitle[];
extern const size_t kToUpperSize, kToLowerSize, kToTitleSize;
extern const CaseExpansion kToUpperMany[], kToLowerMany[], kToTitleMany[];
extern const size_t kToUpperManySize, kToLowerManySize, kToTitleManySize;

}  // namespace keel::jinja
