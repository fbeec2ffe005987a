#include <algorithm>
#include <cstdint>

#include "libs/mathverify/parse/lexer.h"

namespace keel::math {
namespace {

struct Spelling {
  uint32_t code;
  const char* ascii;
};

// Sorted by code point.
constexpr Spelling kSpellings[] = {
    {0xA0, " "},
    {0xA2, "\\text{ cents}"},
    {0xA3, "\\text{sterling}"},
    {0xA5, "\\text{yen}"},
    {0xB0, "^\\circ "},
    {0xB1, "\\pm "},
    {0xB2, "^{2}"},
    {0xB3, "^{3}"},
    {0xB5, "\\mu "},
    {0xB7, "\\cdot "},
    {0xB9, "^{1}"},
    {0xBA, "^\\circ "},
    {0xBC, "\\frac{1}{4}"},
    {0xBD, "\\frac{1}{2}"},
    {0xBE, "\\frac{3}{4}"},
    {0xD7, "\\times "},
    {0xF7, "\\div "},
    {0x2E3, "^{x}"},
    {0x391, "A"},
    {0x393, "\\Gamma "},
    {0x394, "\\Delta "},
    {0x398, "\\Theta "},
    {0x39B, "\\Lambda "},
    {0x3A0, "\\Pi "},
    {0x3A3, "\\Sigma "},
    {0x3A6, "\\Phi "},
    {0x3A8, "\\Psi "},
    {0x3A9, "\\Omega "},
    {0x3B1, "\\alpha "},
    {0x3B2, "\\beta "},
    {0x3B3, "\\gamma "},
    {0x3B4, "\\delta "},
    {0x3B5, "\\epsilon "},
    {0x3B6, "\\zeta "},
    {0x3B7, "\\eta "},
    {0x3B8, "\\theta "},
    {0x3BB, "\\lambda "},
    {0x3BC, "\\mu "},
    {0x3BD, "\\nu "},
    {0x3BE, "\\xi "},
    {0x3C0, "\\pi "},
    {0x3C1, "\\rho "},
    {0x3C3, "\\sigma "},
    {0x3C4, "\\tau "},
    {0x3C5, "\\upsilon "},
    {0x3C6, "\\phi "},
    {0x3C7, "\\chi "},
    {0x3C8, "\\psi "},
    {0x3C9, "\\omega "},
    {0x3D5, "\\phi "},
    {0x3F5, "\\epsilon "},
    {0x2002, " "},
    {0x2003, " "},
    {0x2004, " "},
    {0x2005, " "},
    {0x2006, " "},
    {0x2007, " "},
    {0x2008, " "},
    {0x2009, "\\,"},
    {0x200A, " "},
    {0x200B, ""},
    {0x200C, ""},
    {0x200D, ""},
    {0x200E, ""},
    {0x200F, ""},
    {0x2010, "-"},
    {0x2011, "-"},
    {0x2012, "-"},
    {0x2013, "-"},
    {0x2014, "-"},
    {0x2018, "'"},
    {0x2019, "'"},
    {0x201C, "\""},
    {0x201D, "\""},
    {0x2022, "\\cdot "},
    {0x2026, "\\ldots "},
    {0x202F, "\\,"},
    {0x2032, "'"},
    {0x2033, "''"},
    {0x2044, "/"},
    {0x205F, " "},
    {0x2060, ""},
    {0x2061, ""},
    {0x2062, ""},
    {0x2063, ""},
    {0x2070, "^{0}"},
    {0x2071, "^{i}"},
    {0x2074, "^{4}"},
    {0x2075, "^{5}"},
    {0x2076, "^{6}"},
    {0x2077, "^{7}"},
    {0x2078, "^{8}"},
    {0x2079, "^{9}"},
    {0x207A, "^{+}"},
    {0x207B, "^{-}"},
    {0x207F, "^{n}"},
    {0x2080, "_{0}"},
    {0x2081, "_{1}"},
    {0x2082, "_{2}"},
    {0x2083, "_{3}"},
    {0x2084, "_{4}"},
    {0x2085, "_{5}"},
    {0x2086, "_{6}"},
    {0x2087, "_{7}"},
    {0x2088, "_{8}"},
    {0x2089, "_{9}"},
    {0x20AC, "\\text{euro}"},
    {0x20B9, "\\text{rupee}"},
    {0x2102, "\\mathbb{C}"},
    {0x2103, "^\\circ C"},
    {0x2109, "^\\circ F"},
    {0x210E, "h"},
    {0x2113, "\\ell "},
    {0x2115, "\\mathbb{N}"},
    {0x211A, "\\mathbb{Q}"},
    {0x211D, "\\mathbb{R}"},
    {0x2124, "\\mathbb{Z}"},
    {0x2126, "\\Omega "},
    {0x2147, "e"},
    {0x2148, "i"},
    {0x2150, "\\frac{1}{7}"},
    {0x2151, "\\frac{1}{9}"},
    {0x2152, "\\frac{1}{10}"},
    {0x2153, "\\frac{1}{3}"},
    {0x2154, "\\frac{2}{3}"},
    {0x2155, "\\frac{1}{5}"},
    {0x2156, "\\frac{2}{5}"},
    {0x2157, "\\frac{3}{5}"},
    {0x2158, "\\frac{4}{5}"},
    {0x2159, "\\frac{1}{6}"},
    {0x215A, "\\frac{5}{6}"},
    {0x215B, "\\frac{1}{8}"},
    {0x215C, "\\frac{3}{8}"},
    {0x215D, "\\frac{5}{8}"},
    {0x215E, "\\frac{7}{8}"},
    {0x2189, "0"},
    {0x2192, "\\to "},
    {0x21D2, "\\Rightarrow "},
    {0x2205, "\\emptyset "},
    {0x2206, "\\Delta "},
    {0x2208, "\\in "},
    {0x2209, "\\notin "},
    {0x220F, "\\prod "},
    {0x2211, "\\sum "},
    {0x2212, "-"},
    {0x2213, "\\mp "},
    {0x2215, "/"},
    {0x2216, "\\setminus "},
    {0x2217, "*"},
    {0x2219, "\\cdot "},
    {0x221A, " sqrt "},
    {0x221B, " cbrt "},
    {0x221E, "\\infty "},
    {0x2220, "\\angle "},
    {0x2223, "|"},
    {0x2227, "\\land "},
    {0x2228, "\\lor "},
    {0x2229, "\\cap "},
    {0x222A, "\\cup "},
    {0x222B, "\\int "},
    {0x2234, "\\therefore "},
    {0x2236, ":"},
    {0x2243, "\\approx "},
    {0x2248, "\\approx "},
    {0x2260, "\\ne "},
    {0x2261, "\\equiv "},
    {0x2264, "\\le "},
    {0x2265, "\\ge "},
    {0x2266, "\\le "},
    {0x2267, "\\ge "},
    {0x22C5, "\\cdot "},
    {0x2308, "\\lceil "},
    {0x2309, "\\rceil "},
    {0x230A, "\\lfloor "},
    {0x230B, "\\rfloor "},
    {0x25B3, "\\triangle "},
    {0x27E8, "\\langle "},
    {0x27E9, "\\rangle "},
    {0x2A7D, "\\le "},
    {0x2A7E, "\\ge "},
    {0x3000, " "},
    {0x3001, ","},
    {0x3002, "."},
    {0xFE62, "+"},
    {0xFE63, "-"},
    {0xFEFF, ""},
};

// The zeros of other scripts; each is followed by its other nine digits.
constexpr uint32_t kZeros[] = {0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6,  0xB66,  0xBE6,
                               0xC66, 0xCE6, 0xD66, 0xE50, 0xED0, 0xF20, 0x1040, 0x17E0, 0x1810};

/// The ASCII form of a digit of another script, a fullwidth sign, or a mathematical letter or digit; 0 for others.
char plain_spelling(uint32_t code) {
  for (const uint32_t zero : kZeros)
    if (code >= zero && code < zero + 10) return static_cast<char>('0' + (code - zero));
  if (code >= 0xFF01 && code <= 0xFF5E) return static_cast<char>(code - 0xFF01 + '!');
  if (code >= 0x1D7CE && code <= 0x1D7FF) return static_cast<char>('0' + (code - 0x1D7CE) % 10);
  if (code < 0x1D400 || code > 0x1D6A3) return 0;
  const uint32_t letter = (code - 0x1D400) % 52;
  return static_cast<char>(letter < 26 ? 'A' + letter : 'a' + letter - 26);
}

/// Removes the first code point; returns 0xFFFD for invalid UTF-8.
uint32_t take_code_point(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xF0 && lead < 0xF8 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  if (length == 0 || length > text.size() || lead >= 0xF8) {
    text.remove_prefix(1);
    return 0xFFFD;
  }
  uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      text.remove_prefix(1);
      return 0xFFFD;
    }
    code = code << 6 | (byte(i) & 0x3F);
  }
  text.remove_prefix(length);
  return code;
}

/// Strips the dollar signs of a formula, "$5$", and keeps those of money, "$5" and "\$5".
std::string strip_dollar_delimiters(std::string text) {
  size_t singles = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '$') {
      ++singles;
    }
  }
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      const char next = text[i + 1];
      if (next == '(' || next == ')' || next == '[' || next == ']')
        result += ' ';
      else
        result.append(text, i, 2);
      ++i;
    } else if (text[i] == '$') {
      result +=
          singles % 2 == 1 && i + 1 < text.size() && (text[i + 1] == '.' || (text[i + 1] >= '0' && text[i + 1] <= '9'))
              ? "\\$"
              : " ";
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

std::string to_ascii(std::string_view utf8) {
  if (utf8.size() > kMaxAnswer) throw Undecided{};
  std::string ascii;
  ascii.reserve(utf8.size());
  char last_script = 0;  // ^ or _ when the last character was a superscript or subscript
  while (!utf8.empty()) {
    const uint32_t code = take_code_point(utf8);
    if (code < 0x80) {
      ascii += code < 0x20 ? ' ' : static_cast<char>(code);
      if (ascii.ends_with("+/-")) ascii.replace(ascii.size() - 3, 3, "\\pm ");
    } else if (const char plain = plain_spelling(code); plain != 0) {
      ascii += plain;
    } else {
      const auto* found =
          std::lower_bound(std::begin(kSpellings), std::end(kSpellings), code,
                           [](const Spelling& each, uint32_t code_point) { return each.code < code_point; });
      if (found == std::end(kSpellings) || found->code != code) {
        ascii += "\x01";
        last_script = 0;
        continue;
      }
      std::string_view spelling = found->ascii;
      const char script = spelling.size() == 4 && spelling[1] == '{' ? spelling[0] : '\0';
      if (script != 0 && script == last_script) {  // 10\u00B2\u00B3 is 10^{23}
        ascii.pop_back();
        spelling.remove_prefix(2);
      }
      ascii += spelling;
      last_script = script;
      continue;
    }
    last_script = 0;
  }
  return strip_dollar_delimiters(std::move(ascii));
}

}  // namespace keel::math
