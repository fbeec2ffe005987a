#include "keel/counterfactual/recorded_token_batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "keel/record/tokens/token_file.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

/// Two epochs of sequences of `length` tokens with `per_update` sequences per update.
std::vector<TokenRow> epochs(int sequences, int length, int per_update) {
  std::vector<TokenRow> rows;
  for (int i = 0; i < 2 * sequences * length; ++i) {
    TokenRow row;
    row.step = 1, row.rollout = i / length % sequences, row.update = i / length / per_update, row.position = i % length;
    rows.push_back(row);
  }
  return rows;
}

class TokenBatchesTest : public testing::Test {
 protected:
  std::vector<std::vector<TokenRow>> read_batches(const std::vector<TokenRow>& rows, Scope scope) {
    TokenFile file(made_.path, 1);
    for (size_t i = 0; i < rows.size(); i += 7'000)
      file.add(std::span(rows).subspan(i, std::min<size_t>(7'000, rows.size() - i)));
    file.commit({{"step", 1}});
    TokenReader reader(made_.path / TokenFile::name(1));
    TokenBatches batches(reader, scope);
    std::vector<std::vector<TokenRow>> all;
    for (std::vector<TokenRow> batch = batches.next(); !batch.empty(); batch = batches.next()) all.push_back(batch);
    return all;
  }
  void SetUp() override {
    try {
      require_token_files();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const TestFolder made_;
};

TEST_F(TokenBatchesTest, HaveCompleteSequencesAndAllRowsInOrder) {
  const std::vector<TokenRow> rows = epochs(/*sequences=*/500, /*length=*/37, /*per_update=*/250);
  const auto batches = read_batches(rows, Scope::kSequence);
  EXPECT_GT(batches.size(), 2u);
  size_t next = 0;
  for (const auto& batch : batches) {
    EXPECT_EQ(batch.front().position, 0);
    EXPECT_EQ(batch.back().position, 36);
    for (const TokenRow& row : batch) {
      ASSERT_EQ(row.rollout, rows[next].rollout);
      ASSERT_EQ(row.update, rows[next++].update);
    }
  }
  EXPECT_EQ(next, rows.size());
}

TEST_F(TokenBatchesTest, AreTheUpdatesForAMethodWithBatchScope) {
  for (const int per_update : {500, 100, 3}) {  // longer and shorter than the read buffer
    const std::vector<TokenRow> rows = epochs(/*sequences=*/600, /*length=*/37, per_update);
    const auto batches = read_batches(rows, Scope::kBatch);
    ASSERT_EQ(batches.size(), static_cast<size_t>(std::ceil(1200.0 / per_update)));
    for (size_t update = 0; update < batches.size(); ++update) {
      const size_t sequences = std::min<size_t>(per_update, 1200 - update * per_update);
      ASSERT_EQ(batches[update].size(), 37 * sequences);
      for (const TokenRow& row : batches[update]) ASSERT_EQ(row.update, static_cast<int64_t>(update));
    }
  }
}

TEST_F(TokenBatchesTest, ASequenceMayBeLongerThanTheReadBuffer) {
  const auto batches = read_batches(epochs(/*sequences=*/1, /*length=*/40'000, /*per_update=*/1), Scope::kSequence);
  ASSERT_EQ(batches.size(), 2u);
  for (const auto& batch : batches) EXPECT_EQ(batch.size(), 40'000u);
}

/// mu, pi and A of four tokens in two sequences.
std::vector<TokenRow> four_tokens() {
  std::vector<TokenRow> rows;
  for (const auto& [mu, pi, advantage] :
       {std::tuple{0.5, 0.8, 1.0}, {0.5, 0.55, 1.0}, {0.4, 0.2, -1.0}, {0.4, 0.6, -1.0}}) {
    TokenRow row;
    row.rollout = static_cast<int64_t>(rows.size()) / 2;
    row.log_mu = static_cast<float>(std::log(mu)), row.log_pi = static_cast<float>(std::log(pi));
    row.advantage = static_cast<float>(advantage);
    rows.push_back(row);
  }
  return rows;
}

std::vector<bool> kept(const TokenDecision& decision) {
  const bool* const data = decision.keep.const_data_ptr<bool>();
  return std::vector<bool>(data, data + decision.keep.numel());
}

TEST(RecordedTokenBatch, CanBeEvaluatedWithAnyMethod) {
  const std::vector<TokenRow> rows = four_tokens();
  const StepFacts facts;
  const RecordedTokenBatch tokens(rows, facts);
  // |pi - mu| is 0.3, 0.05, 0.2, 0.2. The last token moves against its advantage.
  EXPECT_EQ(kept(tokens.decide(parse_methods({"dppo_tv:delta=0.15"})[0])),
            (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(kept(tokens.decide(parse_methods({"dppo_tv:low=0.15,high=0.04"})[0])),
            (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(kept(tokens.decide(parse_methods({"dppo_tv:delta=0.25"})[0])),
            (std::vector<bool>{false, true, true, true}));
}

TEST(RecordedTokenBatch, UsesTheRecordedTopKDivergence) {
  std::vector<TokenRow> rows = four_tokens();
  for (TokenRow& row : rows) row.topk_tv = 0.1f, row.topk_tv_replace_last = 0.25f;
  StepFacts facts;
  facts.top_k = 20;
  const RecordedTokenBatch tokens(rows, facts);
  EXPECT_EQ(kept(tokens.decide(parse_methods({"dppo_topk_tv"})[0])), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(kept(tokens.decide(parse_methods({"dppo_topk_tv:support=replace_last"})[0])),
            (std::vector<bool>{false, false, false, true}));
  EXPECT_THAT(error_of(2, [&] { tokens.decide(parse_methods({"dppo_topk_tv:k=8"})[0]); }), HasSubstr("use k=20"));
  EXPECT_THAT(error_of(2, [&] { tokens.decide(parse_methods({"dppo_topk_kl"})[0]); }),
              HasSubstr("needs the column topk_kl"));
}

TEST(RecordedTokenBatch, IncludesTheReferenceKlInEveryCoefficient) {
  std::vector<TokenRow> rows = four_tokens();
  for (TokenRow& row : rows) row.log_reference = row.log_pi - 0.5f;
  StepFacts without, with;
  with.kl_coefficient = 2, with.kl_estimator = KlEstimator::kK2;
  const MethodSpec spec = parse_methods({"drpo"})[0];
  const Tensor kl_coefficient = RecordedTokenBatch(rows, with).decide(spec).coefficient -
                                RecordedTokenBatch(rows, without).decide(spec).coefficient;
  EXPECT_LT((kl_coefficient + 1).abs().max().item<float>(), 1e-6);  // -beta (log pi - log ref) of k2
}

TEST(RecordedTokenBatch, RejectsAMethodWhoseScopeWasNotRecorded) {
  StepFacts facts;
  facts.step = 9, facts.rollouts = 16, facts.recorded_rollouts = 4;
  facts.whole_sequences = facts.whole_batch = false;
  require_scope(parse_methods({"dppo_tv"})[0], facts);
  EXPECT_THAT(error_of(2, [&] { require_scope(parse_methods({"gspo"})[0], facts); }),
              HasSubstr("gspo: decides on whole sequences"));
  EXPECT_THAT(error_of(2, [&] { require_scope(parse_methods({"m2po"})[0], facts); }),
              HasSubstr("has 4 of 16 completions"));
}

TEST(ParseMethods, SplitsMethodsAndTheirParametersAtCommas) {
  const std::vector<MethodSpec> specs = parse_methods(
      {"drpo,dppo_tv:low=0.1,high=0.2,grpo", "dppo_topk_kl:C=5,support=replace_last", "dppo_tv:delta=0.3"});
  std::vector<std::string> names;
  for (const MethodSpec& each : specs) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"drpo", "dppo_tv:low=0.1,high=0.2", "grpo",
                                             "dppo_topk_kl:C=5,support=replace_last", "dppo_tv:delta=0.3"}));
  EXPECT_EQ(std::get<Dppo>(specs[1].region).low, 0.1);
  EXPECT_EQ(std::get<Dppo>(specs[1].region).high, 0.2);
  EXPECT_EQ(std::get<Dppo>(specs[3].region).ratio_cap, 5);
  EXPECT_EQ(std::get<Dppo>(specs[4].region).low, 0.3);
  EXPECT_EQ(std::get<Dppo>(specs[4].region).high, 0.3);
  for (const char* wrong : {"", "drpo,", "drpo,delta=0.1", "drpo:", "drpo:delta", "drpo:=1", "drpo:delta=x", "dropo",
                            "drpo:delta=0.1,delta=0.2", "drpo,drpo", "ipo:low=1"})
    error_of(2, [&] { parse_methods({wrong}); });
}

}  // namespace
}  // namespace keel
