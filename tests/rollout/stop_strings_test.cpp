#include "keel/rollout/stop_strings.h"

#include <gmock/gmock.h>

#include "libs/hftext/characters/unicode.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

using Ids = std::vector<int32_t>;

/// A tokenizer of bytes, like Llama's.
Tokenizer byte_fallback() {
  return Tokenizer::from_files({{"tokenizer.json", R"({
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<unk>": 0, "<0x0A>": 1, "<0xC3>": 2, "<0xA9>": 3, "a": 4, "\u2581a": 5, "\u2581": 6}, "merges": ["\u2581 a"]}})"}},
                               "byte fallback");
}

/// The number of tokens up to the first stop string, checked after every token, and the text.
std::pair<size_t, std::string> end_of(const StopStrings& stop, const Tokenizer& tokenizer, const Ids& tokens) {
  for (size_t count = 1; count <= tokens.size(); ++count)
    if (const auto text = stop.text_before(tokenizer, std::span(tokens).first(count))) return {count, *text};
  return {0, ""};
}

TEST(StopStrings, EndTheCompletionAtTheTokenThatCompletesAString) {
  const Tokenizer words = tiny_tokenizer();  // 3 to 10 are a to h, with spaces between them
  using End = std::pair<size_t, std::string>;
  EXPECT_EQ(end_of(StopStrings({"c"}), words, {3, 4, 5, 6}), End(3, "a b "));
  EXPECT_EQ(end_of(StopStrings({"b c"}), words, {4, 4, 5, 6}), End(3, "b "));
  EXPECT_EQ(end_of(StopStrings({"x", "d", "b c"}), words, {3, 4, 5, 6}), End(3, "a "));
  EXPECT_EQ(end_of(StopStrings({"b c", "a b"}), words, {3, 4, 5}), End(2, ""));
  EXPECT_EQ(end_of(StopStrings({"c b"}), words, {3, 4, 5}), End(0, ""));
  EXPECT_EQ(end_of(StopStrings({}), words, {3, 4, 5}), End(0, ""));
}

TEST(StopStrings, AreFoundAtTheEndOfALongText) {
  Ids tokens(400, 3);
  for (const int32_t token : {4, 5, 6}) tokens.push_back(token);
  const auto [count, text] = end_of(StopStrings({"b c d"}), tiny_tokenizer(), tokens);
  EXPECT_EQ(count, 403u);
  EXPECT_EQ(text.size(), 800u);  // "a " 400 times
}

TEST(StopStrings, MayBeSpecialTokens) {
  const Tokenizer words = tiny_tokenizer();  // 0 to 2 are <pad>, <bos> and <eos>
  using End = std::pair<size_t, std::string>;
  EXPECT_EQ(end_of(StopStrings({"<bos>"}), words, {3, 4, 1, 5}), End(3, "a b"));
  EXPECT_EQ(end_of(StopStrings({"<bos>"}), words, {1, 4}), End(1, ""));
  EXPECT_EQ(end_of(StopStrings({"<bos> b"}), words, {3, 0, 1, 4, 5}), End(4, "a"));
  EXPECT_EQ(end_of(StopStrings({"os>"}), words, {3, 1, 4}), End(2, "a"));
  EXPECT_EQ(end_of(StopStrings({"b c"}), words, {3, 0, 4, 1, 5}), End(5, "a "));
}

TEST(StopStrings, AreFoundAcrossTokensWithoutText) {
  Ids tokens = {3, 4};
  tokens.insert(tokens.end(), 100, 0);
  tokens.push_back(5);
  EXPECT_EQ(end_of(StopStrings({"b c"}), tiny_tokenizer(), tokens), std::pair(size_t{103}, std::string("a ")));
}

TEST(StopStrings, AreFoundOnlyAfterTheLastByteOfACharacter) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  using End = std::pair<size_t, std::string>;
  EXPECT_EQ(end_of(StopStrings({"\n"}), byte_fallback(), {5, 4, 1, 4}), End(3, "aa"));
  EXPECT_EQ(end_of(StopStrings({"\u00E9"}), byte_fallback(), {5, 2, 3, 4}), End(3, "a"));
  EXPECT_EQ(end_of(StopStrings({"a\n\n"}), byte_fallback(), {5, 1, 4, 1, 1}), End(5, "a\n"));
}

TEST(StopStrings, MayNotBeEmpty) {
  const std::vector<std::string> with_empty = {"a", ""};
  EXPECT_THAT(error_of(2, [&] { StopStrings{with_empty}; }), HasSubstr("empty"));
}

}  // namespace
}  // namespace keel
