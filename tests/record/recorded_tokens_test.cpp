#include "keel/record/recorded_tokens.h"

#include <gmock/gmock.h>

#include <cmath>

#include "keel/core/error.h"
#include "keel/record/tokens/token_file.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

class RecordedTokensTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      require_token_files();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  void write(int64_t step, const std::vector<TokenRow>& rows, const Json& prompts = nullptr) {
    TokenFile file(folder_.path / "tokens", step);
    file.add(rows);
    Json facts = {
        {"method", "dppo_tv"}, {"parameters", {{"low", 0.15}, {"high", 0.2}}}, {"step", step}, {"whole_batch", false}};
    if (!prompts.is_null()) facts["prompts"] = prompts;
    file.commit(facts);
  }

  std::filesystem::path run() const { return folder_.path; }

  TestFolder folder_;
};

TokenRow row(int64_t step, int64_t update, int64_t rollout, int32_t position, const char* token, double mu, double pi,
             float advantage, bool kept) {
  TokenRow row;
  row.step = step;
  row.update = update;
  row.rollout = rollout;
  row.position = position;
  row.token_id = token[0];
  row.token = token;
  row.log_mu = static_cast<float>(std::log(mu));
  row.log_pi = static_cast<float>(std::log(pi));
  row.divergence = static_cast<float>(std::fabs(pi - mu));
  row.threshold = advantage > 0 ? 0.2f : 0.15f;
  row.advantage = advantage;
  row.coefficient = kept ? advantage : 0;
  row.kept = kept;
  row.outside = !kept;
  row.entropy = 0.5f;
  row.reward = 1;
  return row;
}

// Two completions in two updates of step 3, one in step 9: ten tokens. Computed by hand.
std::vector<TokenRow> step_three() {
  return {row(3, 0, 7, 0, "a", 0.5, 0.5, 1, true),   row(3, 0, 7, 1, "b", 0.25, 0.25, 1, true),
          row(3, 0, 8, 0, "a", 0.5, 0.5, -1, true),  row(3, 0, 8, 1, "c", 0.125, 0.127, -1, true),
          row(3, 1, 7, 0, "a", 0.5, 0.8, 1, false),  row(3, 1, 7, 1, "b", 0.25, 0.6, 1, false),
          row(3, 1, 8, 0, "a", 0.5, 0.3, -1, false), row(3, 1, 8, 1, "c", 0.125, 0.1, -1, true)};
}

TEST_F(RecordedTokensTest, AreAccumulatedOverAllRows) {
  write(3, step_three());
  write(9, {row(9, 0, 20, 0, "a", 0.75, 0.75, 1, true), row(9, 0, 20, 1, "b", 0.75, 0.95, 1, false)});
  const RecordedTokens tokens = read_recorded_tokens(run());
  EXPECT_TRUE(tokens.was_read);
  EXPECT_TRUE(tokens.damage.empty());
  EXPECT_EQ(tokens.tokens, 10);
  EXPECT_EQ(tokens.blocked, 4);
  EXPECT_EQ(tokens.completions, 5);
  ASSERT_EQ(tokens.steps.size(), 2u);
  EXPECT_EQ(tokens.steps[0].method, "dppo_tv");
  EXPECT_EQ(tokens.steps[0].parameters["high"], 0.2);
  EXPECT_EQ(tokens.steps[0].counts[0].tokens, 4);
  EXPECT_EQ(tokens.steps[0].counts[0].blocked, 2);
  EXPECT_EQ(tokens.steps[0].counts[1].blocked, 1);
  ASSERT_EQ(tokens.by_update.size(), 2u);
  EXPECT_EQ(tokens.by_update[0][0].tokens, 4);   // 2 of step 3, 2 of step 9
  EXPECT_EQ(tokens.by_update[0][0].blocked, 1);  // the one of step 9
  EXPECT_EQ(tokens.by_update[1][1].tokens, 2);
  EXPECT_EQ(tokens.thresholds.size(), 2u);

  ASSERT_EQ(tokens.most_blocked[0].size(), 2u);
  EXPECT_EQ(tokens.most_blocked[0][0].text, "b");  // 2 of 3, with mu 0.25 and 0.75
  EXPECT_EQ(tokens.most_blocked[0][0].affected, 2);
  EXPECT_EQ(tokens.most_blocked[0][0].total, 3);
  EXPECT_NEAR(tokens.most_blocked[0][0].mean_mu, 0.5, 1e-6);
  EXPECT_NEAR(tokens.most_blocked[0][0].mean_entropy, 0.5, 1e-6);
  ASSERT_EQ(tokens.most_blocked[1].size(), 1u);
  EXPECT_EQ(tokens.most_blocked[1][0].text, "a");

  EXPECT_EQ(tokens.divergences.count, 10);
  EXPECT_EQ(tokens.divergences.zero, 4);
  EXPECT_NEAR(tokens.divergences.largest, 0.35, 1e-6);
}

TEST_F(RecordedTokensTest, TakeTheMismatchFromFirstUpdatesOrRecomputation) {
  std::vector<TokenRow> rows = step_three();
  write(3, rows);
  RecordedMismatch mismatch = read_recorded_tokens(run()).mismatch;
  EXPECT_EQ(mismatch.source, RecordedMismatch::Source::kFirstUpdate);
  EXPECT_EQ(mismatch.differences.count, 4);
  EXPECT_NEAR(mismatch.differences.largest, 0.002, 1e-6);
  EXPECT_EQ(mismatch.largest[0].text, "c");
  for (TokenRow& row : rows) row.log_recomputed = static_cast<float>(std::log(std::exp(row.log_mu) + 0.01));
  write(3, rows);
  mismatch = read_recorded_tokens(run()).mismatch;
  EXPECT_EQ(mismatch.source, RecordedMismatch::Source::kRecomputed);
  EXPECT_EQ(mismatch.differences.count, 8);
  EXPECT_NEAR(mismatch.differences.sum / 8, 0.01, 1e-6);
}

TEST_F(RecordedTokensTest, KeepWholeCompletionsSelectedById) {
  std::vector<TokenRow> rows;
  for (int update = 0; update < 2; ++update)
    for (int rollout = 0; rollout < 100; ++rollout)
      for (int position = 0; position < 10; ++position)
        rows.push_back(row(3, update, rollout, position, "a", 0.5, 0.6, 1, true));
  write(3, rows);
  const RecordedTokens all = read_recorded_tokens(run()), some = read_recorded_tokens(run(), 500);
  EXPECT_EQ(all.rows.completions.size(), 200u);
  EXPECT_EQ(some.tokens, 2000);
  EXPECT_EQ(some.completions, 200);
  EXPECT_GT(some.rows.completions.size(), 25u);
  EXPECT_LT(some.rows.completions.size(), 80u);
  std::map<int64_t, int> updates;
  for (const RecordedCompletion& completion : some.rows.completions) {
    EXPECT_EQ(completion.rows, 10u);
    ++updates[completion.rollout];
  }
  for (const auto& [rollout, count] : updates) EXPECT_EQ(count, 2) << rollout;
  EXPECT_EQ(read_recorded_tokens(run(), 500).rows.completions.size(), some.rows.completions.size());
}

TEST_F(RecordedTokensTest, AreEqualIfReadIncrementally) {
  constexpr size_t kMost = 300;
  LiveTokenRecords so_far(run(), kMost);
  EXPECT_FALSE(so_far.read_new_files(1));
  const auto write_step = [&](int step) {
    std::vector<TokenRow> rows;
    for (int rollout = 0; rollout < 40; ++rollout)
      for (int position = 0; position < 5; ++position) {
        const std::string text = "t" + std::to_string(step * 40 + rollout);
        rows.push_back(row(step, 0, step * 100 + rollout, position, text.c_str(), 0.5, 0.6, 1, true));
      }
    write(step, rows);
  };
  for (const int step : {1, 2, 3, 4, 5, 6}) {
    write_step(step);
    EXPECT_TRUE(so_far.read_new_files(1));
    EXPECT_FALSE(so_far.read_new_files(1));
    const RecordedTokens parts = so_far.tokens(), whole = read_recorded_tokens(run(), kMost);
    EXPECT_EQ(parts.tokens, step * 200);
    ASSERT_EQ(parts.rows.completions.size(), whole.rows.completions.size());
    for (size_t i = 0; i < whole.rows.completions.size(); ++i) {
      EXPECT_EQ(parts.rows.completions[i].rollout, whole.rows.completions[i].rollout);
      EXPECT_EQ(parts.rows.completions[i].first, 5 * i);
    }
    EXPECT_EQ(parts.rows.texts, whole.rows.texts);
    EXPECT_EQ(parts.rows.text, whole.rows.text);
    for (size_t i = 0; i < parts.rows.text.size(); i += 5) {
      const int64_t rollout = parts.rows.completions[i / 5].rollout;
      EXPECT_EQ(parts.rows.texts[parts.rows.text[i]], "t" + std::to_string(rollout / 100 * 40 + rollout % 100));
    }
    EXPECT_LT(parts.rows.text.size(), 2 * kMost);
  }
  std::filesystem::remove(run() / "tokens" / TokenFile::name(2));
  EXPECT_TRUE(so_far.read_new_files(250));  // restarts; two files of five
  EXPECT_EQ(so_far.tokens().tokens, 400);
  EXPECT_EQ(so_far.tokens().pending_steps, 3);
  EXPECT_TRUE(so_far.read_new_files(1000));
  EXPECT_EQ(so_far.tokens().tokens, 1000);
  EXPECT_EQ(so_far.tokens().pending_steps, 0);
}

TEST_F(RecordedTokensTest, ReportDamagedFilesAndReadOthers) {
  write(3, step_three());
  write(9, {row(9, 0, 20, 0, "a", 0.75, 0.75, 1, true)});
  const std::filesystem::path cut = run() / "tokens" / TokenFile::name(3);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  folder_.write("tokens/" + TokenFile::name(5), "not Parquet");
  const RecordedTokens tokens = read_recorded_tokens(run());
  ASSERT_EQ(tokens.damage.size(), 2u);
  EXPECT_THAT(tokens.damage[0], testing::HasSubstr(TokenFile::name(3)));
  EXPECT_THAT(tokens.damage[1], testing::HasSubstr(TokenFile::name(5)));
  EXPECT_EQ(tokens.tokens, 1);
}

TEST_F(RecordedTokensTest, AreEmptyWithoutFiles) {
  const RecordedTokens tokens = read_recorded_tokens(run());
  EXPECT_TRUE(tokens.was_read);
  EXPECT_EQ(tokens.tokens, 0);
  EXPECT_TRUE(tokens.rows.completions.empty());
}

TEST_F(RecordedTokensTest, EscapeUntrustedTexts) {
  std::vector<TokenRow> rows = step_three();
  rows[0].token =
      "a\xe2\x80\xae"
      "b";  // RIGHT-TO-LEFT OVERRIDE
  rows[1].token = std::string("n\0l", 3);
  rows[2].token = std::string(1 << 20, 'x');
  write(3, rows);
  const RecordedRows shown = read_recorded_tokens(run()).rows;
  EXPECT_EQ(shown.texts[shown.text[0]], "a\\u202eb");
  EXPECT_EQ(shown.texts[shown.text[1]], "n\\x00l");
  EXPECT_LT(shown.texts[shown.text[2]].size(), 300u);
}

TEST_F(RecordedTokensTest, IncludeThePromptsOfCompletions) {
  std::vector<TokenRow> rows = step_three();
  const int64_t first = rows[0].rollout;
  for (TokenRow& row : rows) row.prompt = row.rollout == first ? 7 : 8;
  write(3, rows, {{"7", "<b>\xe2\x80\xae\nwhat"}, {"9", "of no completion that is here"}});
  for (TokenRow& row : rows) row.step = 4;
  write(4, rows);  // like older files
  const RecordedRows shown = read_recorded_tokens(run()).rows;
  EXPECT_EQ(shown.prompts, std::vector<std::string>{"<b>\\u202e\nwhat"});
  ASSERT_EQ(shown.completions.size(), 8u);
  for (const RecordedCompletion& completion : shown.completions)
    EXPECT_EQ(completion.prompt_index, completion.step == 3 && completion.prompt == 7 ? 0 : -1);
}

TEST_F(RecordedTokensTest, ShortenPromptsToTheSizeLimit) {
  std::vector<TokenRow> rows;
  Json prompts = Json::object();
  for (int i = 0; i < 1000; ++i) {
    rows.push_back(row(3, 0, i, 0, "a", 0.5, 0.5, 1, true));
    rows.back().prompt = i;
    prompts[std::to_string(i)] = std::string(2000, 'x');
  }
  write(3, rows, prompts);
  size_t bytes = 0;
  const RecordedRows shown = read_recorded_tokens(run()).rows;
  EXPECT_EQ(shown.prompts.size(), 1000u);
  for (const std::string& text : shown.prompts) bytes += text.size();
  EXPECT_LT(bytes, 450'000u);
  EXPECT_THAT(shown.prompts[0], testing::HasSubstr(" more bytes)"));
}

TEST_F(RecordedTokensTest, RejectPromptsThatAreNotTexts) {
  write(3, step_three(), {{"7", 7}});
  const RecordedTokens tokens = read_recorded_tokens(run());
  ASSERT_EQ(tokens.damage.size(), 1u);
  EXPECT_THAT(tokens.damage[0], testing::HasSubstr("\"prompts\" of keel.step is not an object of texts"));
}

TEST(LogHistogram, HasEightBinsPerDecade) {
  LogHistogram sizes;
  sizes.add(0.1);
  sizes.add(0.0999);
  sizes.add(0.15, true);
  sizes.add(1e-30);
  sizes.add(INFINITY);
  sizes.add(0);
  sizes.add(NAN);
  const size_t tenth = 9 * 8;  // bins start at 1e-10
  EXPECT_NEAR(LogHistogram::lower_edge(tenth), 0.1, 1e-12);
  EXPECT_EQ(sizes.kept[tenth] + sizes.kept[tenth - 1], 2);
  EXPECT_EQ(sizes.blocked[tenth + 1], 1);  // 0.1333 to 0.1778
  EXPECT_EQ(sizes.kept[0], 1);
  EXPECT_EQ(sizes.infinite, 1);
  EXPECT_EQ(sizes.zero, 1);
  EXPECT_EQ(sizes.count, 6);
}

}  // namespace
}  // namespace keel
