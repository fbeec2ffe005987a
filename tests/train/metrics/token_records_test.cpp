#include "keel/train/metrics/token_records.h"

#include <gtest/gtest.h>

#include "keel/core/error.h"
#include "keel/record/tokens/token_reader.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

TEST(TokenRecords, PromptTextsAreShortenedAtACharacterBoundary) {
  try {
    require_token_files();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  std::string accents = "a";
  for (int i = 0; i < 1500; ++i) accents += "\xc3\xa9";
  std::vector<Prompt> prompts(3);
  prompts[0].id = 70, prompts[0].text = "short\n";
  prompts[1].id = 71, prompts[1].text = "not trained on";
  prompts[2].id = 72, prompts[2].text = accents;
  std::vector<Rollout> rollouts(4);
  rollouts[1].prompt = 1, rollouts[2].prompt = rollouts[3].prompt = 2;
  const std::vector<std::optional<int64_t>> indices = {0, 2, 3};
  const Tokenizer tokenizer = Tokenizer::word_level({"a"}, {});
  const TestFolder folder;
  TokenRecords(folder.path, 5, prompts, rollouts, indices, {}, tokenizer).commit(Json::object());
  const Json recorded = TokenReader(folder.path / TokenFile::name(5)).metadata().at("prompts");
  ASSERT_EQ(recorded.size(), 2u);
  EXPECT_EQ(recorded.at("70"), "short\n");
  EXPECT_EQ(recorded.at("72"), accents.substr(0, 1999) + " … (1,002 more bytes)");
}

}  // namespace
}  // namespace keel
