#include "libs/hftext/regex/simple_regex.h"

#include <gtest/gtest.h>

#include <random>

#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex_dialect.h"
#include "libs/hftext/tokenizer/pattern.h"

namespace keel::text {
namespace {

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kNemo =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeek =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Ranges that are unsorted, nested, overlapping and separate.
constexpr const char* kRanges = "[\u4E2D\u0400-\u052F\u00C0-\u024F\u00E9\u0500-\u0600]+|[^\u2000-\u3000\u2028]";
constexpr const char* kAll[] = {kGpt2,  kLlama3,   kQwen2,  kNemo,
                                kGpt4o, kDeepSeek, kRanges, R"([^\S\n]+|\d{2,}x?|[a-f]{3})"};

/// Split positions of both engines.
void expect_same_cuts(const char* pattern, const std::string& text) {
  const Pattern simple(Regex::compile(pattern, "test"));
  const Pattern pcre2(Regex::compile_pcre2(to_pcre2(pattern, "test"), "test"));
  std::vector<Span> ours, theirs;
  RegexBudget budget;
  simple.split(text, ours, budget);
  pcre2.split(text, theirs, budget);
  ASSERT_EQ(ours.size(), theirs.size()) << pattern << "\n" << text.substr(0, 400);
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_TRUE(ours[i].begin == theirs[i].begin && ours[i].end == theirs[i].end && ours[i].match == theirs[i].match)
        << pattern << "\n"
        << text.substr(theirs[i].begin, 40);
  }
}

TEST(SimpleRegex, SupportsThePatternsOfRealTokenizers) {
  if (!has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  for (const char* pattern : kAll) EXPECT_TRUE(SimpleRegex::compile(pattern)) << pattern;
}

TEST(SimpleRegex, LeavesTheRestToPcre2) {
  if (!has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  for (const char* pattern :
       {"a*", "a|", "(?=a)b", "a+?", "a++", "(a|b)+", "\\bword", "a{1,2}{3}", "[[:alpha:]]", "^a", "(?!a)b", ".",
        "(?i:stra\xC3\x9F"
        "e)",
        "\\p{Greek}", "[a&&b]", "(?<=a)b", "\\w", "a{2}?", "a{1,2}+"}) {
    EXPECT_FALSE(SimpleRegex::compile(pattern)) << pattern;
  }
}

TEST(SimpleRegex, SplitsEveryCharacterLikePcre2) {
  if (!has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  std::string text;
  for (char32_t c = 1; c < 0x20000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    text += "a";
    append_utf8(text, c);
    text += c % 3 == 0 ? " " : "1";
    append_utf8(text, c);
    if (c % 7 == 0) text += "\n ";
  }
  for (const char* pattern : kAll) expect_same_cuts(pattern, text);
}

TEST(SimpleRegex, SplitsRandomTextLikePcre2) {
  if (!has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const std::vector<std::string> parts = {
      "a",  "B",      "'s",     "'S",     "'\u017F", "'ll",    "'",          " ",      "  ",     "\n",     "\r\n",
      "\t", "1",      "234",    "!",      "...",     "/",      "\\",         "\u00E9", "\u4E2D", "\u3000", "\u0301",
      "x",  "\u01C5", "\u02B0", "\u0661", "\u2028",  "\u180E", "\U0001F600", "\u00A0", "_",      "\u212A"};
  std::mt19937 draw(7);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (size_t i = 0; i < 60; ++i) text += parts[draw() % parts.size()];
    for (const char* pattern : kAll) expect_same_cuts(pattern, text);
  }
}

TEST(SimpleRegex, SplitsLongRunsLikePcre2) {
  if (!has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  for (const char* run : {" ", "a", "\n", "1", "!", "\u4E2D", "A"}) {
    std::string text;
    for (int i = 0; i < 20000; ++i) text += run;
    for (const char* pattern : kAll) expect_same_cuts(pattern, text + "b" + text);
  }
}

}  // namespace
}  // namespace keel::text
