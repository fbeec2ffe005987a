#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>

#include "keel/core/files/file.h"
#include "keel/core/untrusted_text.h"
#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex.h"
#include "libs/hftext/tokenizer/tokenizer.h"
#include "tests/support/test_folder.h"

// Expected values come from the tokenizers package 0.23; tests/parity/tokenizer_parity_test.py compares many more
// files and texts.

namespace keel {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer byte_level() {
  const char* file = R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 9, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 10, "content": "<t>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [9], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE",
      "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 5, "\u0120a": 6, "\u00c3": 7, "\u00a9": 8, "<s>": 9},
      "merges": [["a", "b"], ["ab", "c"], ["\u0120", "a"]]}})";
  return Tokenizer::from_files({{"tokenizer.json", file}, {"tokenizer_config.json", R"({"bos_token": "<s>"})"}},
                               "byte level");
}

Tokenizer byte_fallback() {
  return Tokenizer::from_files({{"tokenizer.json", R"({
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<unk>": 0, "<0xC3>": 1, "<0xA9>": 2, "\u2581": 3, "a": 4, "\u2581a": 5, "<0xE2>": 6},
      "merges": ["\u2581 a"]}})"}},
                               "byte fallback");
}

Tokenizer unigram() {
  return Tokenizer::from_files({{"tokenizer.json", R"({
    "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
    "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], ["\u2581", -2.0],
      ["a", -3.0], ["b", -3.5], ["\u2581a", -3.2], ["ab", -4.0], ["\u2581ab", -7.3]]}})"}},
                               "unigram");
}

TEST(Bpe, MergesBytesOfWords) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  EXPECT_EQ(byte_level().encode("abc a\u00E9"), (Ids{4, 6, 7, 8}));
  EXPECT_EQ(byte_level().encode("aab"), (Ids{0, 3}));
  EXPECT_EQ(byte_level().decode(Ids{9, 4, 6, 7, 8, 10, 7, 7, 8}), "abc a\u00E9<t>\uFFFD\u00E9");
  EXPECT_EQ(byte_level().decode(Ids{9, 4, 6, 7}, /*skip_special=*/false), "<s>abc a\uFFFD");
  EXPECT_EQ(byte_level().decode(Ids{8, 9, 99, 7, 7}), "\uFFFD\uFFFD\uFFFD");
}

TEST(Bpe, FallsBackToBytesAndThenToOneUnknownToken) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  EXPECT_EQ(byte_fallback().encode("a \u00E9a"), (Ids{5, 3, 1, 2, 4}));
  EXPECT_EQ(byte_fallback().encode("xyza"), (Ids{3, 0, 4}));
  EXPECT_EQ(byte_fallback().decode(Ids{5, 3, 1, 2, 4}), "a \u00E9a");
  EXPECT_EQ(byte_fallback().decode(Ids{5, 6, 1, 2, 4}), "a\uFFFD\uFFFD\uFFFDa");  // one bad byte makes the whole sequence invalid
  EXPECT_EQ(byte_fallback().decode(Ids{3, 5, 1, 2, 6}), " a\uFFFD\uFFFD\uFFFD");
}

TEST(Unigram, TakesThePiecesWithTheHighestScore) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  EXPECT_EQ(unigram().encode("ab a"), (Ids{1, 5, 4}));
  EXPECT_EQ(unigram().encode("xyab"), (Ids{1, 0, 5}));
  EXPECT_EQ(unigram().encode("a b"), (Ids{4, 1, 3}));
  EXPECT_EQ(unigram().decode(Ids{1, 0, 5, 4}), "<unk>ab a");
}

TEST(Unigram, ParsesScoresLikeThePackageToTheLastBit) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const auto ids = [](const std::string& a, const std::string& b, const std::string& ab) {
    const std::string file = R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", )" + a +
                             R"(], ["b", )" + b + R"(], ["ab", )" + ab + "]]}}";
    return Tokenizer::from_files({{"tokenizer.json", file}}, "ties").encode("ab");
  };
  // With exact rounding to double, the first four would be ties, which the longer piece wins.
  EXPECT_EQ(ids("-6.07888526628150760", "-7.94436245714637401", "-14.023247723427883"), (Ids{1, 2}));
  EXPECT_EQ(ids("-6.37129180295674047", "-1.51225150581597845", "-7.883543308772719"), (Ids{1, 2}));
  EXPECT_EQ(ids("-7.06584197029453875", "-5.72879666345054073", "-12.79463863374508"), (Ids{1, 2}));
  EXPECT_EQ(ids("-7.92421789583156500", "-4.78199270932373466", "-12.706210605155299"), (Ids{1, 2}));
  EXPECT_EQ(ids("-1.5", "-2.5", "-4"), (Ids{3}));
  EXPECT_EQ(ids("-15e-1", "-0.25E+1", "-4.0000001"), (Ids{1, 2}));
}

TEST(Patterns, SupportScriptsLongNamesAndNestedClasses) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const auto matches_whole = [](const std::string& pattern, const std::string& character) {
    const auto match = text::Regex::compile(pattern, "test").find(character);
    return match && !character.empty() && match->end == character.size();
  };
  struct Case {
    const char *pattern, *in, *out;
  };
  const Case cases[] = {
      {"\\p{Han}", "\u4E2D", "\u3001"},  // a comma that Han shares with other scripts
      {"\\p{Hani}", "\U00031350", "a"}, {"\\p{Hiragana}", "\u3042", "\u30FC"}, {"\\p{katakana}", "\u30A2", "\u30FC"},
      {"\\P{Han}", "\u3001", "\u4E2D"}, {"\\p{Kawi}", "\U00011F02", "a"}, {"\\p{Letter}", "\u00E9", "1"},
      {"\\p{Lowercase_Letter}", "a", "A"}, {"\\p{Decimal_Number}", "\u0661", "\u00B2"}, {"\\p{punctuation}", "!", "+"},
      {"[[:punct:]]", "+", "a"}, {"\\p{Cn}", "\u0378", "\U00011F02"}, {"\\w", "\u00B2", "\u00A7"},
      {"[\\w]", "\u00E9", "\u00B2"}, {"[^\\w]", "\u00B2", "\u00E9"}, {"[^\\W_]", "\u00E9", "_"}, {"[\\W\\d]", "1", "a"},
      {"[a[^b-z]]", "a", "b"}, {"[\\P{L}\\p{Lu}]", "A", "\U00011F02"}, {"[\\D\\S]", " ", ""}  // everything
  };
  for (const Case& row : cases) {
    EXPECT_TRUE(matches_whole(row.pattern, row.in)) << row.pattern;
    EXPECT_FALSE(matches_whole(row.pattern, row.out)) << row.pattern;
  }
}

TEST(SpecialTokens, AreFoundInATextOnlyWithParseSpecial) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const Tokenizer tokenizer = byte_level();
  EXPECT_EQ(tokenizer.encode("<s>abc <t>a"), (Ids{4, 10, 0}));  // characters without a token are skipped
  EXPECT_EQ(tokenizer.encode("<s>abc <t>a", {.parse_special = true}), (Ids{9, 4, 10, 0}));
  EXPECT_EQ(tokenizer.encode("<s>abc <t>a", {.add_special_tokens = true, .parse_special = true}),
            (Ids{9, 9, 4, 10, 0}));
  EXPECT_EQ(tokenizer.encode("", {.add_special_tokens = true}), Ids{9});
  EXPECT_EQ(tokenizer.bos_id(), 9);
  EXPECT_EQ(tokenizer.id_of("<t>"), 10);
  EXPECT_EQ(tokenizer.id_of("<u>"), std::nullopt);
  EXPECT_EQ(tokenizer.decode(Ids{9, 0, 10}), "a<t>");
  EXPECT_EQ(tokenizer.decode(Ids{9, 0, 10}, /*skip_special=*/false), "<s>a<t>");
  EXPECT_EQ(tokenizer.size(), 11);
}

TEST(Tokenizer, ReturnsItsFilesByteForByte) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const TestFolder folder;
  const std::map<std::string, std::string> files = {
      {"tokenizer.json", byte_level().files().at("tokenizer.json") + "\n \n"},
      {"special_tokens_map.json", R"({ "eos_token": {"content": "b"}, "bos_token": "a" })"},
      {"chat_template.jinja", "{{ bos_token }}\r\n"}};
  for (const auto& [name, bytes] : files) folder.write(name, bytes);
  const Tokenizer tokenizer = Tokenizer::load(folder.path);
  EXPECT_EQ(tokenizer.files(), files);
  EXPECT_EQ(tokenizer.bos_id(), 0);
  EXPECT_EQ(tokenizer.eos_id(), 1);
}

TEST(Tokenizer, KeepsSpacesBeforePunctuationAsTheModelWroteThem) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const Tokenizer tokenizer =
      Tokenizer::from_files({{"tokenizer.json", R"({
    "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], ["\u2581I", -1.0],
      ["\u2581do", -1.0], ["\u2581n't", -1.0], ["\u2581.", -1.0]]}})"},
                             {"tokenizer_config.json", R"({"clean_up_tokenization_spaces": true})"}},
                            "spaces");
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 3, 4}), "I do n't .");
}

TEST(Utf8, ReplacesMaximalInvalidParts) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  // Python: bytes.decode("utf-8", "replace")
  const std::pair<std::string, std::string> rows[] = {{"a\xC3\xA9", "a\u00E9"},
                                                      {"\xC3", "\uFFFD"},
                                                      {"\xE2\x82", "\uFFFD"},
                                                      {"\xE2\x28\xA1", "\uFFFD(\uFFFD"},
                                                      {"\xF0\x9F\x98", "\uFFFD"},
                                                      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
                                                      {"\xC0\xAF", "\uFFFD\uFFFD"},
                                                      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
                                                      {"\xF0\x9F\x98\x80", "\U0001F600"},
                                                      {"\x80\xFF", "\uFFFD\uFFFD"}};
  for (const auto& [bytes, lossy] : rows) {
    EXPECT_EQ(text::lossy_utf8(bytes), lossy);
    EXPECT_EQ(first_bad_utf8(bytes).has_value(), lossy.find("\uFFFD") != std::string::npos);
  }
}

TEST(PreTokenizer, SplitsAtAnEmptyPatternIntoCharacters) {
  const auto ids = [](const std::string& pattern, const std::string& behavior, const std::string& invert) {
    return Tokenizer::from_files({{"tokenizer.json", R"({"pre_tokenizer": {"type": "Split", "pattern": )" + pattern +
                                                         R"(, "behavior": ")" + behavior + R"(", "invert": )" + invert +
                                                         R"(}, "model": {"type": "WordLevel", "unk_token": "<unk>",
                                          "vocab": {"<unk>": 0, "a": 1, "\u00e9": 2, "\ud83d\ude42": 3, " ": 4}}})"}},
                                 "characters")
        .encode("a\u00e9 \U0001F642\u00e9");
  };
  const Ids characters = {1, 2, 4, 3, 2};
  for (const char* behavior : {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}) {
    EXPECT_EQ(ids(R"({"String": ""})", behavior, "false"), characters) << behavior;
    if (text::has_unicode_tables()) {
      EXPECT_EQ(ids(R"({"Regex": ""})", behavior, "false"), characters) << behavior;
    }
  }
  EXPECT_EQ(ids(R"({"String": ""})", "Isolated", "true"), characters);
  EXPECT_EQ(ids(R"({"String": ""})", "Removed", "true"), Ids());  // non-matches are removed
}

TEST(Tokenizer, ReturnsTheTextOfEachToken) {
  using Pieces = std::vector<std::string>;
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  // The two bytes of e with an acute accent are separate tokens.
  EXPECT_EQ(byte_level().pieces(Ids{6, 4, 7, 8, 5, 10, 9}), (Pieces{" a", "abc", "\xC3", "\xA9", " ", "<t>", "<s>"}));
  EXPECT_EQ(byte_fallback().pieces(Ids{5, 1, 2, 6, 3}, 4), (Pieces{" a", "\xC3", "\xA9", "\xE2", " "}));
  EXPECT_EQ(byte_fallback().pieces(Ids{5, 5}), (Pieces{"a", " a"}));  // the beginning of a text, as it is decoded
  EXPECT_EQ(unigram().pieces(Ids{4, 6, 3}, 2), (Pieces{" a", " ab", "b"}));
  const Tokenizer words = Tokenizer::word_level({"so", "2"}, {});
  EXPECT_EQ(words.pieces(Ids{0, 1, 7, 0}), (Pieces{"so", "2", "", "so"}));  // the space belongs to neither
}

TEST(NormalForms, SortMarksOfACharacterInLinearTime) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  // Canonical combining classes: dot below 220, acute 230; Tibetan vowels 129 and 130, and U+0F73 is the two of them.
  const auto times = [](int count, const std::string& text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  constexpr int kMany = 100000;
  const std::clock_t start = std::clock();
  for (const auto form :
       {text::NormalForm::kNfc, text::NormalForm::kNfd, text::NormalForm::kNfkc, text::NormalForm::kNfkd}) {
    EXPECT_TRUE(text::normalize("1" + times(kMany, "\u0301\u0323") + "a", form) ==
                "1" + times(kMany, "\u0323") + times(kMany, "\u0301") + "a");
    EXPECT_TRUE(text::normalize("1" + times(kMany, "\u0F73"), form) ==
                "1" + times(kMany, "\u0F71") + times(kMany, "\u0F72"));
  }
  EXPECT_EQ(text::normalize("a\u0301\u0323", text::NormalForm::kNfc), "\u1EA1\u0301");
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5);
}

TEST(AddedTokens, StripSpacesInLinearTime) {
  for (const std::string side : {"lstrip", "rstrip"}) {
    const Tokenizer tokenizer = Tokenizer::from_files({{"tokenizer.json", R"({
      "added_tokens": [{"id": 2, "content": " ", "normalized": false, ")" + side +
                                                                              R"(": true}],
      "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "a": 1}}})"}},
                                                      "spaces");
    const std::clock_t start = std::clock();
    EXPECT_EQ(tokenizer.encode(std::string(300000, ' ')).size(), 300000u);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5) << side;
  }
}

}  // namespace
}  // namespace keel
