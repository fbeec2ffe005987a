#include "libs/hftext/characters/unicode.h"

#include <algorithm>
#include <array>
#include <vector>

#include "keel/core/error.h"
#include "libs/hftext/characters/unicode_differences.h"
#include "libs/hftext/characters/utf8.h"

#ifdef KEEL_HAS_TOKENIZERS
#include <utf8proc.h>
#endif

namespace keel::text {

void require_unicode_tables(std::string_view what, const std::string& location) {
  if (has_unicode_tables()) return;
  fail(ExitCode::kBadInput, location, ": ", what,
       " needs PCRE2 and utf8proc, which this build lacks; install libpcre2-dev and libutf8proc-dev and build again"
       " with KEEL_TOKENIZERS on");
}

#ifdef KEEL_HAS_TOKENIZERS

namespace {

char first_letter_of_category(char32_t c) { return utf8proc_category_string(static_cast<utf8proc_int32_t>(c))[0]; }

utf8proc_ssize_t check_result(utf8proc_ssize_t size) {
  if (size < 0) fail(ExitCode::kInternal, "utf8proc: ", utf8proc_errmsg(size), " while normalizing text");
  return size;
}

/// Sorts the combining marks of each character into canonical order. utf8proc_map() uses a bubble sort, which takes
/// hours for a character with a million marks.
void order_marks(std::vector<utf8proc_int32_t>& points) {
  const auto rank = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find_if(begin, points.end(), [&](auto point) { return rank(point) == 0; });
    std::stable_sort(begin, end, [&](auto a, auto b) { return rank(a) < rank(b); });
    begin = end == points.end() ? end : end + 1;
  }
}

std::string map_part(std::string_view text, int option_bits) {
  const auto options = static_cast<utf8proc_option_t>(option_bits);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  std::vector<utf8proc_int32_t> points;
  int unused = 0;  // grapheme break state, not used
  for (auto remaining = static_cast<utf8proc_ssize_t>(text.size()); remaining > 0;) {
    utf8proc_int32_t point = 0;
    const utf8proc_ssize_t read = check_result(utf8proc_iterate(bytes, remaining, &point));
    bytes += read;
    remaining -= read;
    constexpr size_t kMaxDecomposition = 32;  // the longest decomposition in Unicode has 18
    std::array<utf8proc_int32_t, kMaxDecomposition> parts{};
    const utf8proc_ssize_t count =
        check_result(utf8proc_decompose_char(point, parts.data(), parts.size(), options, &unused));
    points.insert(points.end(), parts.begin(), parts.begin() + std::min<utf8proc_ssize_t>(count, kMaxDecomposition));
  }
  order_marks(points);
  const auto length = static_cast<utf8proc_ssize_t>(points.size());
  points.push_back(0);  // overwritten in place by UTF-8 and a terminating zero
  const utf8proc_ssize_t size = check_result(utf8proc_reencode(points.data(), length, options));
  return std::string(reinterpret_cast<const char*>(points.data()), static_cast<size_t>(size));
}

/// Text below U+0300 is already in NFC; text below U+0080 is in every normal form.
bool is_already_normalized(std::string_view text, NormalForm form) {
  const unsigned char limit = form == NormalForm::kNfc ? 0xCC : 0x80;  // 0xCC starts U+0300
  return std::all_of(text.begin(), text.end(), [=](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < limit;
  });
}

}  // namespace

bool has_unicode_tables() { return true; }

std::string normalize(std::string_view text, NormalForm form) {
  if (is_already_normalized(text, form)) return std::string(text);
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const int options =
      UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
  // The tokenizers package treats characters that its tables lack as starters that never combine, so the text before
  // and after them is normalized separately.
  std::string result;
  size_t from = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    constexpr char32_t kFirstUnknown = 0x7FD;  // of both tables
    const bool unknown = c.value >= kFirstUnknown &&
                         (in_ranges(not_normalized(), c.value) || (compatible && in_ranges(not_compatible(), c.value)));
    if (unknown) {
      result += map_part(text.substr(from, at - from), options);
      result += text.substr(at, c.size);
      from = at + c.size;
    }
    at += c.size;
  }
  return result + map_part(text.substr(from), options);
}

void append_lower_case(std::string& text, char32_t c) {
  if (c == 0x130) {  // I with a dot above: the one character whose lower case is two, i and the dot
    text += "i\u0307";
    return;
  }
  append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::string fold_case(std::string_view text) {
  return map_part(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
}

uint32_t category_bit(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category != UTF8PROC_CATEGORY_CN) return uint32_t{1} << category;
  for (const NewCategory& added : new_categories()) {
    if (in_ranges(added.ranges, c)) return category_bits(added.name);
  }
  return uint32_t{1} << UTF8PROC_CATEGORY_CN;
}

uint32_t category_bits(std::string_view name) {
  constexpr std::string_view kNames =
      "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";  // utf8proc's order
  if (name.empty() || name.size() > 2) return 0;
  uint32_t bits = 0;
  for (size_t i = 0; i < kNames.size(); i += 2) {
    if (kNames.substr(i, 2).starts_with(name)) bits |= uint32_t{1} << i / 2;
  }
  return bits;
}

bool is_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // letters since Unicode 12, still marks in the package
  return first_letter_of_category(c) == 'M' && !in_ranges(not_marks(), c);
}

bool is_number(char32_t c) { return first_letter_of_category(c) == 'N'; }

bool is_punctuation(char32_t c) {
  if (c < 0x80) return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7F);
  if (in_ranges(also_punctuation(), c)) return true;
  return first_letter_of_category(c) == 'P' && !in_ranges(not_punctuation(), c);
}

#else

bool has_unicode_tables() { return false; }
std::string fold_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// require_unicode_tables() throws at load time before any of these is called.
std::string normalize(std::string_view text, NormalForm) { return std::string(text); }
void append_lower_case(std::string& text, char32_t c) { append_utf8(text, c); }
uint32_t category_bit(char32_t) { return 0; }
uint32_t category_bits(std::string_view) { return 0; }
bool is_mark(char32_t) { return false; }
bool is_number(char32_t) { return false; }
bool is_punctuation(char32_t) { return false; }

#endif

}  // namespace keel::text
