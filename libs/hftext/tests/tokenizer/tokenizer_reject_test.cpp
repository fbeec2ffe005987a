#include <gtest/gtest.h>

#include <ctime>

#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tests/expect_error.h"
#include "libs/hftext/tokenizer/tokenizer.h"
#include "tests/support/effort.h"

namespace keel {
namespace {

using Ids = std::vector<int32_t>;

std::string with_model(const std::string& model) { return R"({"model":)" + model + "}"; }

/// A small BPE model and a further part of the file.
std::string with_part(const std::string& part) {
  return R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]},)" + part + "}";
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

Tokenizer tokenizer_of(const std::string& file) { return Tokenizer::from_files({{"tokenizer.json", file}}, "folder"); }

struct Case {
  const char* name;
  std::string file;
  std::vector<std::string> pieces;  // of the message
};

/// Damaged and hostile files with parts of the expected message.
std::vector<Case> rejected_files() {
  const std::string deep(100000, '[');
  return {
      {"not JSON", "vocab", {"tokenizer.json:1: not valid JSON"}},
      {"truncated", R"({"model":{"type":"BPE","vocab":{"a":0)", {"not valid JSON"}},
      {"bytes after the end", with_part("\"decoder\":null") + std::string(3, '\0'), {"NUL character"}},
      {"half of a surrogate pair", with_part(R"("version":"\ud800")"), {"not valid JSON"}},
      {"invalid UTF-8", with_part("\"version\":\"\xff\""), {"not valid JSON"}},
      {"depth", deep, {"nested deeper than 64"}},
      {"array", "[]", {"must be an object"}},
      {"key twice", with_part(R"("decoder":null,"decoder":null)"), {"\"decoder\"", "twice"}},
      {"unknown key", with_part(R"("colour":1)"), {"\"colour\"", "not known"}},
      {"version", with_part(R"("version":"2.0")"), {"version", "\"2.0\"", "1.0"}},
      {"truncation", with_part(R"("truncation":8)"), {"truncation", "8", "object or null"}},
      {"padding", with_part(R"("padding":true)"), {"padding", "true", "object or null"}},

      {"model missing", "{}", {"model", "missing", "object"}},
      {"model unknown",
       with_model(R"({"type":"WordPiece","vocab":{"a":0}})"),
       {"WordPiece", "BPE, Unigram, WordLevel"}},
      {"huge id", with_model(R"({"type":"WordLevel","vocab":{"a":0,"b":4294967296}})"), {"\"b\"", "4294967296"}},
      {"huger id", with_model(R"({"type":"WordLevel","vocab":{"a":18446744073709551615}})"), {"\"a\"", "0 to 0"}},
      {"negative id", with_model(R"({"type":"WordLevel","vocab":{"a":0,"b":-1}})"), {"\"b\"", "-1"}},
      {"id twice", with_model(R"({"type":"WordLevel","vocab":{"a":0,"b":0}})"), {"\"b\"", "each once"}},
      {"gap in ids", with_model(R"({"type":"WordLevel","vocab":{"a":0,"b":2}})"), {"\"b\"", "0 to 1"}},
      {"token twice", with_model(R"({"type":"WordLevel","vocab":{"a":0,"a":1}})"), {"\"a\"", "twice"}},
      {"id not a number", with_model(R"({"type":"WordLevel","vocab":{"a":"0"}})"), {"model.vocab", "numbers", "\"a\""}},
      {"id not an integer", with_model(R"({"type":"WordLevel","vocab":{"a":0.5}})"), {"model.vocab", "\"a\""}},
      {"no vocabulary", with_model(R"({"type":"WordLevel","vocab":{}})"), {"model.vocab", "0 tokens"}},
      {"token of 10 MB",
       with_model(R"({"type":"WordLevel","vocab":{")" + std::string(10 << 20, 'a') + R"(":0}})"),
       {"10485760 bytes", "16384"}},
      {"dropout", with_model(R"({"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]})"), {"dropout", "random"}},
      {"merges missing", with_model(R"({"type":"BPE","vocab":{"a":0}})"), {"merges", "missing"}},
      {"merge of an unknown token",
       with_model(R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":["a c"]})"),
       {"merges[0]", "\"c\""}},
      {"merge to an unknown token",
       with_model(R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":[["a","b"]]})"),
       {"merges[0]", "\"ab\""}},
      {"merge longer than all tokens",
       with_model(R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":[["a",")" + std::string(9000, 'b') + R"("]]})"),
       {"merges[0]", "bbb..."}},
      {"merge of one", with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a"]})"), {"\"a\"", "one space"}},
      {"merge of three", with_model(R"({"type":"BPE","vocab":{"a":0},"merges":[["a","a","a"]]})"), {"two tokens"}},
      {"merge of numbers", with_model(R"({"type":"BPE","vocab":{"a":0},"merges":[1]})"), {"model.merges"}},
      {"prefix longer than a merge",
       with_model(R"({"type":"BPE","continuing_subword_prefix":"##","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})"),
       {"merges[0]", "\"##\""}},
      {"unk_id", with_model(R"({"type":"Unigram","unk_id":2,"vocab":[["a",0]]})"), {"unk_id", "2", "0 to 0"}},
      {"piece twice", with_model(R"({"type":"Unigram","vocab":[["a",0],["a",-1]]})"), {"\"a\"", "twice"}},
      {"piece without score", with_model(R"({"type":"Unigram","vocab":[["a"]]})"), {"a piece and its score"}},
      {"piece of 16 KB",
       with_model(R"({"type":"Unigram","vocab":[["a",0],[")" + std::string(16000, 'a') + R"(",-1]]})"),
       {"vocab[1]", "aaa...", "16000 bytes", "512"}},
      {"pieces as an object", with_model(R"({"type":"Unigram","vocab":{"a":0}})"), {"0 pieces", "array"}},

      {"added token without content",
       with_part(R"("added_tokens":[{"id":3}])"),
       {"added_tokens[0].content", "missing"}},
      {"empty added token", with_part(R"("added_tokens":[{"id":3,"content":""}])"), {"added_tokens[0].content"}},
      {"added token of 16 KB",
       with_part(R"("added_tokens":[{"id":3,"content":")" + std::string(16000, 'a') + R"("}])"),
       {"added_tokens", "aaa...", "16000 bytes", "512"}},
      {"added token with a gap",
       with_part(R"("added_tokens":[{"id":5,"content":"<x>"}])"),
       {"<x>", "the id 5", "is 3"}},
      {"added token with a wrong id", with_part(R"("added_tokens":[{"id":3,"content":"b"}])"), {"\"b\"", "is 1"}},
      {"added token twice",
       with_part(R"("added_tokens":[{"id":3,"content":"x"},{"id":3,"content":"x"}])"),
       {"\"x\"", "twice"}},
      {"negative added token", with_part(R"("added_tokens":[{"id":-1,"content":"x"}])"), {"id is -1"}},
      {"added token empty when normalized",
       with_part(
           R"("normalizer":{"type":"Strip","strip_left":true,"strip_right":true},"added_tokens":[{"id":3,"content":" ","normalized":true}])"),
       {"empty after normalization"}},

      {"normalizer",
       with_part(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":""})"),
       {"normalizer.type", "Precompiled", "NFC"}},
      {"normalizer key", with_part(R"("normalizer":{"type":"NFC","level":3})"), {"normalizer", "\"level\""}},
      {"pre_tokenizer",
       with_part(R"("pre_tokenizer":{"type":"UnicodeScripts"})"),
       {"pre_tokenizer.type", "UnicodeScripts"}},
      {"inside a sequence",
       with_part(R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"}]})"),
       {"pre_tokenizer.pretokenizers[0].individual_digits", "missing"}},
      {"101 steps",
       with_part(R"("normalizer":{"type":"Sequence","normalizers":[)" +
                 [] {
                   std::string steps = R"({"type":"NFC"})";
                   for (int i = 0; i < 100; ++i) steps += R"(,{"type":"NFC"})";
                   return steps;
                 }() +
                 "]}"),
       {"101 steps", "100"}},
      {"replacement",
       with_part(R"("pre_tokenizer":{"type":"Metaspace","replacement":"__"})"),
       {"replacement", "one character"}},
      {"prefix space",
       with_part(R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","add_prefix_space":false})"),
       {"add_prefix_space", "never"}},
      {"behavior",
       with_part(R"("pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Sideways","invert":false})"),
       {"behavior", "Sideways", "Isolated"}},
      {"post_processor", with_part(R"("post_processor":{"type":"Magic"})"), {"post_processor.type", "Magic"}},
      {"template without its token",
       with_part(
           R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{}})"),
       {"special_tokens.<s>", "missing"}},
      {"template with an id too large",
       with_part(
           R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"s":{"id":"s","ids":[3],"tokens":["s"]}}})"),
       {"the id 3", "0 to 2"}},
      {"template for two texts",
       with_part(
           R"("post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B","type_id":0}}],"pair":[],"special_tokens":{}})"),
       {"\"B\"", "one text"}},
      {"template that adds millions of tokens",
       with_part(R"("post_processor":{"type":"TemplateProcessing","single":[)" +
                 repeated(R"({"SpecialToken":{"id":"s","type_id":0}},)", 2000) +
                 R"({"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"s":{"id":"s","ids":[)" +
                 repeated("1,", 1999) + R"(1],"tokens":["s"]}}})"),
       {"post_processor.single", "at most 4096 tokens"}},
      {"decoder", with_part(R"("decoder":{"type":"CTC"})"), {"decoder.type", "CTC", "ByteLevel"}},
      {"decoder key", with_part(R"("decoder":{"type":"Fuse","how":1})"), {"decoder", "\"how\""}},
  };
}

TEST(TokenizerFile, IsRejectedWithAReasonIfDamaged) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  for (const Case& row : rejected_files()) {
    SCOPED_TRACE(row.name);
    expect_error(ExitCode::kBadInput, row.pieces, [&] { tokenizer_of(row.file); });
    expect_error(ExitCode::kBadInput, {"folder", "tokenizer.json"}, [&] { tokenizer_of(row.file); });
  }
}

TEST(TokenizerFile, WithAnUnsupportedRegularExpressionIsRejected) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const std::pair<const char*, const char*> rows[] = {
      {R"((a)\\1)", R"(\1)"}, {"(?<n>a)", "(?<n"},    {"[[:nope:]]", "[:"},      {"[a&&b]", "&&"},
      {R"([^[^\\W]])", "[^"}, {"(a", "without a )"},  {"a)", "without a ("},     {"[a", "without a ]"},
      {"[]", "empty set"},    {R"(\\)", "backslash"}, {R"(\\ba)", R"(\b)"},      {R"(\\xff)", R"(\xff)"},
      {"*a", "\"*\""},        {"a{9999}", "{9999}"},  {"(?i:\u00e9)", "\u00e9"}, {"(?i:ss)", "\"s\""},
      {"[z-a]", "z-a"},       {"(?~a)", "(?~"},       {R"(\\p{Nope})", "Nope"}};
  for (const auto& [pattern, piece] : rows) {
    SCOPED_TRACE(pattern);
    const std::string file =
        with_part(R"("pre_tokenizer":{"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":")" +
                  std::string(pattern) + R"("}})");
    expect_error(ExitCode::kBadInput, {"pre_tokenizer.pattern", "regular expression", piece},
                 [&] { tokenizer_of(file); });
  }
}

TEST(TokenizerFile, ThatContradictsItsConfigurationIsRejected) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const auto with = [](const std::string& config) {
    return [config] {
      Tokenizer::from_files({{"tokenizer.json", with_part("\"decoder\":null")}, {"tokenizer_config.json", config}},
                            "folder");
    };
  };
  expect_error(ExitCode::kBadInput, {"tokenizer_config.json", "added_tokens_decoder", "\"<x>\"", "none"},
               with(R"({"added_tokens_decoder":{"3":{"content":"<x>"}}})"));
  expect_error(ExitCode::kBadInput, {"added_tokens_decoder", "the id 7", "\"a\"", "gives it 0"},
               with(R"({"added_tokens_decoder":{"7":{"content":"a"}}})"));
  expect_error(ExitCode::kBadInput, {"tokenizer_config.json", "eos_token", "\"</s>\""},
               with(R"({"eos_token":"</s>"})"));
  expect_error(ExitCode::kBadInput, {"tokenizer_config.json", "not valid JSON"}, with("{"));
  expect_error(ExitCode::kBadInput, {"tokenizer_config.json", "object"}, with("[]"));
}

TEST(TokenizerLimits, StopExponentialRegularExpressions) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const auto with = [](const std::string& pattern) {
    return tokenizer_of(
        with_part(R"("pre_tokenizer":{"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":")" +
                  pattern + R"("}})"));
  };
  std::string text(5000, 'a');
  text += "cb";
  expect_error(ExitCode::kBadInput, {"gave up", "5002 bytes", "limit"}, [&] { with("(?:a|aa|aaa)+b").encode(text); });
  expect_error(ExitCode::kBadInput, {"gave up", "limit"}, [&] { with("a+a+a+a+b").encode(text); });
}

/// A search from one position is cheap, but every character is such a position.
TEST(TokenizerLimits, StopQuadraticRegularExpressions) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const auto pre_tokenizer = [](const std::string& pattern) {
    return R"({"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":")" + pattern + R"("}})";
  };
  const std::string letters(1 << 18, 'a');
  std::string pieces;  // for exponential patterns: each piece alone is cheap
  while (pieces.size() < letters.size()) pieces += std::string(25, 'a') + " ";
  // SimpleRegex matches the first, PCRE2 the others. The second cannot backtrack; the third scans ahead in the
  // middle of a match.
  const std::vector<std::string> patterns = {"a*b", R"(\\w+[@#])", "(?:a(?=[^b]*b)|a)+"};
  for (size_t i = 0; i < patterns.size(); i += count<size_t>(2, 1)) {
    const std::string& pattern = patterns[i];
    SCOPED_TRACE(pattern);
    const Tokenizer tokenizer = tokenizer_of(with_part("\"pre_tokenizer\":" + pre_tokenizer(pattern)));
    expect_error(ExitCode::kBadInput, {"pre_tokenizer", "gave up", "262144 bytes", "limit", "shorten the text"},
                 [&] { tokenizer.encode(letters); });
    EXPECT_EQ(tokenizer.encode(letters.substr(0, 2000)).size(), 2000);
  }
  // Set membership is not a linear search over thousands of letters.
  std::string set, set_letters;
  for (char32_t c = 0x4e00; c < 0x4e00 + 5000; c += 2) text::append_utf8(set, c);
  while (set_letters.size() < 30000) text::append_utf8(set_letters, 0x4e00);
  const Tokenizer wide = tokenizer_of(with_part("\"pre_tokenizer\":" + pre_tokenizer("[" + set + "]*b")));
  expect_error(ExitCode::kBadInput, {"gave up"}, [&] { wide.encode(set_letters + set_letters); });
  const Tokenizer each_piece =
      tokenizer_of(with_part(R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},)" +
                             pre_tokenizer("(?:a?){16}a{25}") + "]}"));
  EXPECT_EQ(each_piece.encode(pieces.substr(0, 25)).size(), 25);
  expect_error(ExitCode::kBadInput, {"gave up", "25 bytes"}, [&] { each_piece.encode(pieces); });
}

TEST(TokenizerLimits, StopATextThatGrowsExponentially) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  std::string steps = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})";
  for (int i = 0; i < 9; ++i) steps += R"(,{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})";
  const Tokenizer normalizing =
      tokenizer_of(with_part(R"("normalizer":{"type":"Sequence","normalizers":[)" + steps + "]}"));
  expect_error(ExitCode::kBadInput, {"normalizer", "64 times"}, [&] { normalizing.encode("a"); });
  const Tokenizer decoding = tokenizer_of(with_part(R"("decoder":{"type":"Sequence","decoders":[)" + steps + "]}"));
  expect_error(ExitCode::kBadInput, {"decoder", "64 times"}, [&] { decoding.decode(Ids{0}); });
}

TEST(TokenizerLimits, AcceptAMillionEqualCharacters) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const std::clock_t start = std::clock();
  const std::string letters(1 << 20, 'a');
  const std::string words = R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  const Tokenizer merging = tokenizer_of(
      R"({"model":{"type":"BPE","vocab":{"a":0,"aa":1,"aaaa":2},"merges":["a a","aa aa"]},)" + words + "}");
  EXPECT_EQ(merging.encode(letters), Ids(1 << 18, 2));
  EXPECT_EQ(merging.encode(std::string(1 << 20, ' ')).size(),
            0u);  // unknown without an unknown token: skipped, as in the package
  const Tokenizer unigram =
      tokenizer_of(with_model(R"({"type":"Unigram","vocab":[["a",-1.0],["aa",-1.5],["aaaa",-2.5]]})"));
  EXPECT_EQ(unigram.encode(letters), Ids(1 << 18, 2));
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20);  // CPU seconds; a busy machine does not change them
}

TEST(TokenizerLimits, MergesWithEmptyTokensTerminate) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  const Tokenizer tokenizer = tokenizer_of(
      with_model(R"({"type":"BPE","unk_token":"","vocab":{"":0,"a":1},"merges":[["a",""],["","a"],["",""]]})"));
  EXPECT_EQ(tokenizer.encode("axa"), (Ids{1, 1}));
}

TEST(Tokenizer, DoesNotParseMalformedByteTokens) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  // The package's decoder returns the same.
  const Tokenizer tokenizer = tokenizer_of(
      R"({"decoder":{"type":"ByteFallback"},"model":{"type":"BPE","byte_fallback":true,"vocab":{"<0x-1>":0,"<0x41>":1,"<0xZZ>":2,"<0x100>":3,"<0xFF>":4},"merges":[]}})");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2, 3, 4, 4}), "<0x-1>A<0xZZ><0x100>\uFFFD\uFFFD");
  EXPECT_EQ(tokenizer.encode("A"), Ids{1});
}

TEST(Tokenizer, RejectsInvalidUtf8) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  expect_error(ExitCode::kBadInput, {"not UTF-8", "byte 2 of 4"},
               [] { tokenizer_of(with_part("\"decoder\":null")).encode("ab\xC3("); });
}

TEST(WithoutUnicodeTables, ATokenizerThatNeedsThemIsRejectedWithAFix) {
  if (text::has_unicode_tables()) GTEST_SKIP() << "built with PCRE2 and utf8proc";
  for (const char* part : {R"("normalizer":{"type":"NFC"})", R"("pre_tokenizer":{"type":"Whitespace"})",
                           R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false})"}) {
    expect_error(ExitCode::kBadInput, {"PCRE2 and utf8proc", "libpcre2-dev", "KEEL_TOKENIZERS"},
                 [&] { tokenizer_of(with_part(part)); });
  }
  EXPECT_EQ(tokenizer_of(with_part("\"decoder\":null")).encode("ab"), Ids{2});
}

}  // namespace
}  // namespace keel
