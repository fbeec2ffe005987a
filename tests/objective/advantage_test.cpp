#include "keel/objective/advantage.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Advantages, EqualTheGoldens) {
  int checked = 0;
  const Json goldens = golden("advantages.json");
  for (const Json& row : goldens.at("cases")) {
    SCOPED_TRACE(row.at("about").get<std::string>());
    const std::vector<double> rewards = numbers(row.at("rewards"));
    const auto groups = row.at("groups").get<std::vector<int64_t>>();
    const Json& want = row.at("expected");
    expect_advantages(group_mean_advantages(rewards, groups), numbers(want.at("group_mean")));
    expect_advantages(advantages("group_mean", rewards, groups), numbers(want.at("group_mean")));
    for (const Json& one : want.at("grpo")) {
      const double eps = one.at("eps");
      expect_advantages(grpo_advantages(rewards, groups, eps), numbers(one.at("value")));
      if (eps == 1e-6) expect_advantages(advantages("grpo", rewards, groups), numbers(one.at("value")));
      ++checked;
    }
  }
  EXPECT_EQ(checked, 16);
}

TEST(Advantages, OfEqualRewardsAreExactlyZeroWhateverTheRewardAndTheGroupsSize) {
  int rounded = 0;
  for (const double reward : {0.1, 0.2, 0.3, 0.7, 1.1, 3.3, -0.7, 1.0 / 3, 1e-20, 1e30}) {
    for (int64_t size = 2; size <= 64; ++size) {
      std::vector<double> rewards(size, reward);
      std::vector<int64_t> groups(size, 7);
      double mean = 0;
      for (const double r : rewards) mean += r;
      mean /= static_cast<double>(size);
      rounded += mean != reward;
      rewards.insert(rewards.end(), {0.0, 1.0});  // a group with a signal beside it
      groups.insert(groups.end(), {3, 3});
      for (const char* kind : {"group_mean", "grpo"}) {
        const std::vector<double> got = advantages(kind, rewards, groups);
        for (int64_t i = 0; i < size; ++i) ASSERT_EQ(got[i], 0) << kind << " " << reward << " " << size;
        ASSERT_LT(got[size], 0);
        ASSERT_GT(got[size + 1], 0);
      }
    }
  }
  EXPECT_GT(rounded, 100) << "these rewards no longer test anything: a plain mean reproduces them";
}

TEST(Advantages, OfNobodyAreEmptyAndAnUnknownKindIsRefused) {
  EXPECT_TRUE(advantages("grpo", {}, {}).empty());
  const std::string message = error_of(2, [] { advantages("gae", {}, {}); });
  EXPECT_NE(message.find("gae"), std::string::npos);
  EXPECT_NE(message.find("group_mean"), std::string::npos);
}

}  // namespace
}  // namespace keel
