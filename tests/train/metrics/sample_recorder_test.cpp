#include "keel/train/metrics/sample_recorder.h"

#include <gtest/gtest.h>

#include "libs/hftext/characters/unicode.h"

namespace keel {
namespace {

/// A byte-level tokenizer as GPT-2's: " less" is "Ġless", and the three bytes of the euro sign are two tokens.
Tokenizer byte_level() {
  return Tokenizer::from_files({{"tokenizer.json", R"({
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "added_tokens": [{"id": 5, "content": "<end>", "normalized": false, "special": true}],
    "model": {"type": "BPE", "merges": [],
      "vocab": {"\u0120less": 0, "more": 1, "\u00e2\u0124": 2, "\u00ac": 3, "\u010a": 4, "<end>": 5}}})"}},
                               "byte level");
}

TEST(SampleRow, HasDecodedTokensAndTheAnswer) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "built without PCRE2 and utf8proc";
  Prompt prompt;
  prompt.tokens = {1};
  prompt.text = "more";
  prompt.answer = {{"value", 7}};
  Rollout rollout;
  rollout.tokens.ids = {0, 2, 3, 4, 1, 5, 9};  // the last id is in the output layer and not in the vocabulary
  rollout.tokens.behavior_logp.assign(rollout.tokens.size(), -0.5f);
  const Json row = sample_row("rl", 3, prompt, rollout, byte_level());
  EXPECT_EQ(row["tokens"], Json({" less", "\\xe2\\x82", "\\xac", "\n", "more", "<end>", "<id 9>"}));
  EXPECT_EQ(row["token_ids"], Json({0, 2, 3, 4, 1, 5, 9}));
  EXPECT_EQ(row["answer"], prompt.answer);
  EXPECT_NO_THROW(row.dump());
}

TEST(SampleRow, ShortensALongAnswerAndOmitsAMissingOne) {
  const Tokenizer tokenizer = Tokenizer::word_level({"a"}, {});
  Prompt prompt;
  prompt.answer = {{"tests", std::string(1 << 20, 't')}};
  const Json row = sample_row("eval", 1, prompt, {}, tokenizer);
  ASSERT_TRUE(row["answer"].is_string());
  EXPECT_TRUE(row["answer"].get<std::string>().starts_with("{\"tests\":\"ttt"));
  EXPECT_LT(row["answer"].get<std::string>().size(), 2100u);
  prompt.answer = nullptr;
  EXPECT_FALSE(sample_row("eval", 1, prompt, {}, tokenizer).contains("answer"));
}

}  // namespace
}  // namespace keel
