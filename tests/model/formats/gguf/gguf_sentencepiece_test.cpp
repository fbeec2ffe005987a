#include "keel/model/formats/gguf/gguf_sentencepiece.h"

#include <gmock/gmock.h>

namespace keel {
namespace {

const std::vector<std::string_view> kTokens = {"a", "b", "c", "ab", "bc", "abc"};

TokenScores scores_of(const std::vector<TokenMerge>& merges) {
  TokenIds ids;
  for (const std::string_view token : kTokens) ids.emplace(token, static_cast<int64_t>(ids.size()));
  return scores_from_merges(kTokens, ids, merges);
}

TEST(GgufSentencepiece, AScoreIsTheIndexOfTheFirstMerge) {
  const TokenScores found = scores_of({{"a", "b"}, {"b", "c"}, {"a", "bc"}, {"ab", "c"}});
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.scores, (std::vector<double>{-5, -5, -5, 0, -1, -2}));
}

TEST(GgufSentencepiece, TokensWithInterleavedMergesShareAScore) {
  // With equal scores the longer left part comes first.
  const TokenScores found = scores_of({{"ab", "c"}, {"a", "bc"}, {"a", "b"}, {"b", "c"}});
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.scores, (std::vector<double>{-5, -5, -5, -2, -3, 0}));
  const TokenScores mixed = scores_of({{"ab", "c"}, {"b", "c"}, {"a", "bc"}, {"a", "b"}});
  EXPECT_THAT(mixed.error, testing::HasSubstr("order"));
}

TEST(GgufSentencepiece, AnIncompleteMergeListHasNoScores) {
  EXPECT_THAT(scores_of({{"a", "b"}, {"b", "c"}, {"ab", "c"}}).error, testing::HasSubstr("not all possible merges"));
  EXPECT_THAT(scores_of({{"a", "x"}}).error, testing::HasSubstr("are not tokens"));
}

}  // namespace
}  // namespace keel
