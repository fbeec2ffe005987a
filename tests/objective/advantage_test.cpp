#include "keel/objective/advantage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace keel {
namespace {

void expect_advantages(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (want[i] == 0) {
      EXPECT_EQ(got[i], 0) << i;
    } else {
      EXPECT_NEAR(got[i], want[i], 1e-9 * std::abs(want[i])) << i;
    }
  }
}

/// A case of advantages.json.
struct GoldenAdvantages {
  explicit GoldenAdvantages(const Json& row)
      : rewards(numbers(row.at("rewards"))),
        groups(row.at("groups").get<std::vector<int64_t>>()),
        lengths(row.at("lengths").get<std::vector<int64_t>>()),
        mask(row.at("mask").get<std::vector<uint8_t>>()),
        token_rewards(numbers(row.value("token_rewards", Json::array()))),
        values(numbers(row.value("values", Json::array()))) {}

  TokenRewards batch() const { return {rewards, groups, lengths, mask, token_rewards, values}; }

  std::vector<double> rewards;
  std::vector<int64_t> groups, lengths;
  std::vector<uint8_t> mask;
  std::vector<double> token_rewards, values;
};

/// Calls check(case, its expected values) for every case.
template <class Check>
void for_each_golden(Check check) {
  const Json goldens = golden("advantages.json");
  for (const Json& row : goldens.at("cases")) {
    SCOPED_TRACE(row.at("about").get<std::string>());
    check(GoldenAdvantages(row), row.at("expected"));
  }
}

TEST(Advantages, OfSequencesMatchTheGoldens) {
  int cases = 0, grpo = 0;
  for_each_golden([&](const GoldenAdvantages& given, const Json& want) {
    expect_advantages(group_mean_advantages(given.rewards, given.groups), numbers(want.at("group_mean")));
    expect_advantages(sequence_advantages("group_mean", given.rewards, given.groups, given.lengths),
                      numbers(want.at("group_mean")));
    expect_advantages(rloo_advantages(given.rewards, given.groups), numbers(want.at("rloo")));
    expect_advantages(sequence_advantages("rloo", given.rewards, given.groups, given.lengths),
                      numbers(want.at("rloo")));
    for (const Json& one : want.at("grpo")) {
      const double eps = one.at("eps");
      expect_advantages(grpo_advantages(given.rewards, given.groups, eps), numbers(one.at("value")));
      if (eps == 1e-6)
        expect_advantages(sequence_advantages("grpo", given.rewards, given.groups, given.lengths),
                          numbers(one.at("value")));
      ++grpo;
    }
    ++cases;
  });
  EXPECT_EQ(cases, 8);
  EXPECT_EQ(grpo, 16);
}

TEST(Advantages, OfReinforcePlusPlusMatchTheGoldens) {
  int plain = 0, baseline = 0;
  for_each_golden([&](const GoldenAdvantages& given, const Json& want) {
    for (const Json& one : want.at("reinforce_pp")) {
      expect_advantages(reinforce_pp_advantages(given.batch(), one.at("gamma"), one.at("eps")),
                        numbers(one.at("value")));
      ++plain;
    }
    for (const Json& one : want.at("reinforce_pp_baseline")) {
      expect_advantages(reinforce_pp_baseline_advantages(given.batch(), one.at("eps")), numbers(one.at("value")));
      ++baseline;
    }
  });
  EXPECT_EQ(plain, 16);
  EXPECT_EQ(baseline, 8);
}

TEST(Advantages, AndReturnsOfGaeMatchTheGoldens) {
  int checked = 0;
  for_each_golden([&](const GoldenAdvantages& given, const Json& want) {
    for (const Json& one : want.value("gae", Json::array())) {
      const AdvantagesAndReturns got = gae_advantages(given.batch(), one.at("gamma"), one.at("lambda"));
      expect_advantages(got.advantages, numbers(one.at("advantages")));
      expect_advantages(got.returns, numbers(one.at("returns")));
      ++checked;
    }
  });
  EXPECT_EQ(checked, 7 * 3);
}

TEST(Advantages, OfTokensDoNotDependOnMaskedTokens) {
  int garbage = 0;
  for_each_golden([&](GoldenAdvantages given, const Json& want) {
    for (size_t i = 0; i < given.values.size(); ++i) {
      if (given.mask[i] != 0) continue;
      given.values[i] = given.token_rewards[i] = i % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : 1e300;
      ++garbage;
    }
    for (const Json& one : want.value("gae", Json::array())) {
      const AdvantagesAndReturns got = gae_advantages(given.batch(), one.at("gamma"), one.at("lambda"));
      expect_advantages(got.advantages, numbers(one.at("advantages")));
      expect_advantages(got.returns, numbers(one.at("returns")));
    }
  });
  EXPECT_GE(garbage, 9);
}

TEST(Advantages, OfGaePutTheRewardOnTheLastValidToken) {
  const std::vector<double> rewards{2, -1, 5}, values{0.5, 1, 9, -1, 7};
  const std::vector<int64_t> groups{0, 0, 0}, lengths{3, 1, 1};
  const std::vector<uint8_t> mask{1, 1, 0, 1, 0};  // the third sequence has no valid token, so its reward is ignored
  const AdvantagesAndReturns got = gae_advantages({rewards, groups, lengths, mask, {}, values}, 0.5, 0.5);
  // By hand: 2 - 1 = 1 on the second token; 0 + 0.5 * 1 - 0.5 + 0.25 * 1 on the first; -1 + 1 on the fourth.
  expect_advantages(got.advantages, {0.25, 1, 0, 0, 0});
  expect_advantages(got.returns, {0.75, 2, 0, -1, 0});
}

TEST(Advantages, OfEqualRewardsAreExactlyZeroForAnyRewardAndGroupSize) {
  int rounded = 0;
  for (const double reward : {0.1, 0.2, 0.3, 0.7, 1.1, 3.3, -0.7, 1.0 / 3, 1e-20, 1e30}) {
    for (int64_t size = 1; size <= 64; ++size) {
      std::vector<double> rewards(size, reward);
      std::vector<int64_t> groups(size, 7);
      double mean = 0;
      for (const double r : rewards) mean += r;
      mean /= static_cast<double>(size);
      rounded += mean != reward;
      rewards.insert(rewards.end(), {0.0, 1.0});  // another group with different rewards
      groups.insert(groups.end(), {3, 3});
      for (const char* kind : {"group_mean", "grpo", "rloo"}) {
        const std::vector<double> got = sequence_advantages(kind, rewards, groups, {});
        for (int64_t i = 0; i < size; ++i) ASSERT_EQ(got[i], 0) << kind << " " << reward << " " << size;
        ASSERT_LT(got[size], 0);
        ASSERT_GT(got[size + 1], 0);
      }
    }
  }
  EXPECT_GT(rounded, 100) << "these rewards no longer test anything: a plain mean reproduces them";
}

TEST(Advantages, AreExactlyZeroAfterWhiteningEqualTokens) {
  for (const double reward : {0.1, 0.7, -1.1, 1e30}) {
    for (size_t size : {1, 3, 7, 11}) {
      const std::vector<double> rewards(size, reward);
      const std::vector<int64_t> groups(size, 0), lengths(size, 2);
      const std::vector<uint8_t> mask(2 * size, 1);
      const TokenRewards batch{rewards, groups, lengths, mask, {}, {}};
      for (const double x : reinforce_pp_advantages(batch)) ASSERT_EQ(x, 0) << reward << " " << size;
      for (const double x : reinforce_pp_baseline_advantages(batch)) ASSERT_EQ(x, 0) << reward << " " << size;
    }
  }
}

TEST(Advantages, AreEmptyWithoutSequencesAndZeroForAMaskedBatch) {
  EXPECT_TRUE(sequence_advantages("grpo", {}, {}, {}).empty());
  EXPECT_TRUE(reinforce_pp_advantages({}).empty());
  EXPECT_TRUE(reinforce_pp_baseline_advantages({}).empty());
  EXPECT_TRUE(gae_advantages({}, 1, 1).advantages.empty());
  const std::vector<double> rewards{1, 2}, values{3, 4, 5};
  const std::vector<int64_t> groups{0, 0}, lengths{1, 2};
  const std::vector<uint8_t> mask(3, 0);
  const TokenRewards batch{rewards, groups, lengths, mask, {}, values};
  const std::vector<double> zeros(3, 0.0);
  EXPECT_EQ(reinforce_pp_advantages(batch), zeros);
  EXPECT_EQ(reinforce_pp_baseline_advantages(batch), zeros);
  EXPECT_EQ(gae_advantages(batch, 1, 1).returns, zeros);
}

// Means of the groups: 0.5, 2, 0.
TEST(Advantages, OfMaxrlAreDividedByTheMeanOfTheGroup) {
  const std::vector<double> rewards{1, 0, 1, 0, 3, 1, 0, 0};
  const std::vector<int64_t> groups{0, 0, 0, 0, 1, 1, 2, 2}, lengths(8, 3);
  expect_advantages(sequence_advantages("maxrl", rewards, groups, lengths), {1, -1, 1, -1, 0.5, -0.5, 0, 0});
  const std::string refusal =
      error_of(3, [&] { maxrl_advantages(std::vector<double>{1, -0.5}, std::vector<int64_t>{0, 0}); });
  EXPECT_NE(refusal.find("reward -0.5"), std::string::npos) << refusal;
}

TEST(Advantages, OfTheBatchMeanIgnoreGroups) {
  expect_advantages(sequence_advantages("batch_mean", std::vector<double>{1, 0, 4, 3}, std::vector<int64_t>{0, 0, 1, 1},
                                        std::vector<int64_t>(4, 1)),
                    {-1, -2, 2, 1});
}

// From the formula of TRL 1.16 for multi_objective_aggregation: normalize_then_sum, in NumPy with eps 1e-4.
TEST(Advantages, OfGdpoNormaliseEachFunctionAndThenTheSum) {
  const std::vector<std::vector<double>> functions = {{1, 0, 0, 1, 1, 1, 0, 1}, {1, 1, 0, 0, 0.5, 1, 1, 1}};
  expect_advantages(
      gdpo_advantages(functions, std::vector<double>{1, 0.5}, std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1, 1}, 1e-4),
      {1.3479612816445357, -0.4493204272148452, -1.3479612816445357, 0.4493204272148452, -0.2592527372247267,
       0.7781730990312109, -1.2970934608376952, 0.7781730990312109});
}

TEST(Advantages, RejectUnknownKindsAndInconsistentArrays) {
  EXPECT_THAT(error_of(2, [] { sequence_advantages("gae", {}, {}, {}); }),
              AllOf(HasSubstr("gae"), HasSubstr("group_mean")));

  const std::vector<double> rewards{1, 2}, one{1};
  const std::vector<int64_t> groups{0, 0}, lengths{1, 2}, short_groups{0};
  const std::vector<uint8_t> mask(3, 1);
  EXPECT_THAT(error_of(70, [&] { sequence_advantages("rloo", rewards, short_groups, {}); }), HasSubstr("2 rewards"));
  const TokenRewards one_reward{one, groups, lengths, mask, {}, {}}, one_token{rewards, groups, lengths, mask, one, {}},
      one_value{rewards, groups, lengths, mask, {}, one};
  EXPECT_THAT(error_of(70, [&] { reinforce_pp_advantages(one_reward); }), HasSubstr("1 rewards"));
  EXPECT_THAT(error_of(70, [&] { gae_advantages(one_token, 1, 1); }), HasSubstr("1 token"));
  EXPECT_THAT(error_of(70, [&] { gae_advantages(one_value, 1, 1); }), HasSubstr("1 values"));
}

TEST(Advantages, OfReinforcePlusPlusWithoutDiscountingAreOnePerSequence) {
  // Tokens 1 | 0 0 0: mean 1/4, variance (9/16 + 3/16) / 3 = 1/4. Minus the group mean: 1/2 | -1/2 -1/2 -1/2, whose
  // mean is -1/4 and variance again 1/4.
  const std::vector<double> rewards{1, 0};
  const std::vector<int64_t> groups{0, 0}, lengths{1, 3};
  for (const char* kind : {"reinforce_pp", "reinforce_pp_baseline"}) {
    const std::vector<double> got = sequence_advantages(kind, rewards, groups, lengths);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_NEAR(got[0], 1.5, 1e-6) << kind;
    EXPECT_NEAR(got[1], -0.5, 1e-6) << kind;
  }
}

}  // namespace
}  // namespace keel
