#include "libs/hftext/jinja/objects/python_str.h"

#include <algorithm>

#include "libs/hftext/jinja/objects/python_str_tables.h"

namespace keel::jinja {
namespace {

/// Code points at which a property changes, computed from run lengths.
std::vector<char32_t> property_changes(const uint32_t* lengths, size_t size) {
  std::vector<char32_t> result(size);
  char32_t at = 0;
  for (size_t i = 0; i < size; ++i) result[i] = at += lengths[i];
  return result;
}

bool has_property(const std::vector<char32_t>& property_changes, char32_t code) {
  return (std::upper_bound(property_changes.begin(), property_changes.end(), code) - property_changes.begin()) % 2 == 1;
}

enum class Case { kUpper, kLower, kTitle };

struct CaseTable {
  const CaseRun* runs;
  size_t run_count;
  const CaseExpansion* expansions;
  size_t expansion_count;
};

CaseTable case_table(Case to) {
  switch (to) {
    case Case::kUpper:
      return {kToUpper, kToUpperSize, kToUpperMany, kToUpperManySize};
    case Case::kLower:
      return {kToLower, kToLowerSize, kToLowerMany, kToLowerManySize};
    case Case::kTitle:
      break;
  }
  return {kToTitle, kToTitleSize, kToTitleMany, kToTitleManySize};
}

void append_in_case(std::string& text, char32_t code, Case to) {
  if (code < 0x80) {
    const bool to_uppercase = to != Case::kLower && code >= 'a' && code <= 'z';
    const bool to_lowercase = to == Case::kLower && code >= 'A' && code <= 'Z';
    text += static_cast<char>(to_uppercase ? code - 32 : to_lowercase ? code + 32 : code);
    return;
  }
  const CaseTable table = case_table(to);
  const CaseExpansion* expansions = std::lower_bound(table.expansions, table.expansions + table.expansion_count, code,
                                                     [](const CaseExpansion& e, char32_t c) { return e.from < c; });
  if (expansions != table.expansions + table.expansion_count && expansions->from == code) {
    for (char32_t part : expansions->to) {
      if (part != 0) append_code_point(text, part);
    }
    return;
  }
  const CaseRun* run = std::upper_bound(table.runs, table.runs + table.run_count, code,
                                        [](char32_t c, const CaseRun& r) { return c < r.first; });
  // Runs with stride 2 may be interleaved with others: also check a few previous runs.
  for (int back = 0; back < 3 && run != table.runs; ++back) {
    --run;
    if (code <= run->last && (code - run->first) % run->stride == 0) {
      code = static_cast<char32_t>(static_cast<int64_t>(code) + run->delta);
      break;
    }
  }
  append_code_point(text, code);
}

bool is_case_ignorable(char32_t code) {
  static const std::vector<char32_t> table = property_changes(kCaseIgnorable, kCaseIgnorableSize);
  return has_property(table, code);
}

/// True if the capital sigma at `at` ends a word (Unicode's Final_Sigma).
bool is_final_sigma(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::string& result, const std::u32string& text, size_t at) {
  constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
  if (text[at] == kSigma && is_final_sigma(text, at)) return append_code_point(result, kFinalSigma);
  append_in_case(result, text[at], Case::kLower);
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) -> char32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0x80;  // invalid bytes never read past the end
  };
  const char32_t lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  char32_t code = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(at + i) & 0x3F);
  at = std::min(at + length, text.size());
  return code;
}

void append_code_point(std::string& text, char32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6), tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12), tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0);
  }
}

size_t code_point_count(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t byte_of_code_point(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size() && index > 0; --index) next_code_point(text, at);
  return at;
}

std::u32string code_points(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) result += next_code_point(text, at);
  return result;
}

std::string utf8(std::u32string_view text) {
  std::string result;
  result.reserve(text.size());
  for (char32_t code : text) append_code_point(result, code);
  return result;
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1C && code <= 0x1F);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_line_break(char32_t code) {
  return (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  static const std::vector<char32_t> table = property_changes(kPrintable, kPrintableSize);
  return has_property(table, code);
}
bool is_alpha(char32_t code) {
  if (code < 0x80) return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  static const std::vector<char32_t> table = property_changes(kAlpha, kAlphaSize);
  return has_property(table, code);
}
bool is_decimal(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  static const std::vector<char32_t> table = property_changes(kDecimal, kDecimalSize);
  return has_property(table, code);
}
bool is_digit(char32_t code) {
  static const std::vector<char32_t> table = property_changes(kDigit, kDigitSize);
  return has_property(table, code);
}
bool is_numeric(char32_t code) {
  static const std::vector<char32_t> table = property_changes(kNumeric, kNumericSize);
  return has_property(table, code);
}
bool is_lower(char32_t code) {
  static const std::vector<char32_t> table = property_changes(kLower, kLowerSize);
  return has_property(table, code);
}
bool is_upper(char32_t code) {
  static const std::vector<char32_t> table = property_changes(kUpper, kUpperSize);
  return has_property(table, code);
}
bool is_title(char32_t code) {
  static const std::vector<char32_t> table = property_changes(kTitle, kTitleSize);
  return has_property(table, code);
}

std::string to_upper(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) append_in_case(result, next_code_point(text, at), Case::kUpper);
  return result;
}

std::string to_lower(std::string_view text) {
  const std::u32string codes = code_points(text);
  std::string result;
  for (size_t at = 0; at < codes.size(); ++at) append_lower(result, codes, at);
  return result;
}

std::string to_title(std::string_view text) {
  const std::u32string codes = code_points(text);
  std::string result;
  bool in_word = false;
  for (size_t at = 0; at < codes.size(); ++at) {
    if (in_word) append_lower(result, codes, at);
    if (!in_word) append_in_case(result, codes[at], Case::kTitle);
    in_word = is_cased(codes[at]);
  }
  return result;
}

std::string capitalize(std::string_view text) {
  const std::u32string codes = code_points(text);
  std::string result;
  for (size_t at = 0; at < codes.size(); ++at) {
    if (at == 0) append_in_case(result, codes[at], Case::kTitle);
    if (at > 0) append_lower(result, codes, at);
  }
  return result;
}

std::string swap_case(std::string_view text) {
  const std::u32string codes = code_points(text);
  std::string result;
  for (size_t at = 0; at < codes.size(); ++at) {
    if (is_upper(codes[at])) {
      append_lower(result, codes, at);
    } else if (is_lower(codes[at])) {
      append_in_case(result, codes[at], Case::kUpper);
    } else {
      append_code_point(result, codes[at]);
    }
  }
  return result;
}

size_t leading_space(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size(); end = at) {
    if (!is_space(next_code_point(text, at))) break;
  }
  return end;
}

size_t trailing_space(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    size_t at = begin - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    size_t next = at;
    if (!is_space(next_code_point(text, next))) break;
    begin = at;
  }
  return text.size() - begin;
}

std::string_view strip(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  return text;
}

}  // namespace keel::jinja
