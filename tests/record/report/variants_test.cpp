#include "keel/record/report/variants.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

RunData seeded(const std::string& name, const std::string& seed, const std::string& method,
               const std::vector<double>& rewards) {
  RunData run;
  run.name = name;
  run.used = {{"run.seed", seed},
              {"run.dir", "runs/" + name},
              {"objective.method", method},
              {"model.path", "warm-" + seed + "/step"}};
  for (size_t i = 0; i < rewards.size(); ++i)
    run.metrics.push_back({"rl", static_cast<int64_t>(i + 1), {{"reward/mean", rewards[i]}}});
  return run;
}

TEST(Variants, GroupRunsThatDifferOnlyByTheirSeed) {
  const std::vector<RunData> runs{seeded("drpo-1", "1", "drpo", {1}), seeded("grpo-1", "1", "grpo", {1}),
                                  seeded("drpo-2", "2", "drpo", {1}), seeded("drpo-3", "3", "drpo", {1})};
  const std::vector<SeedVariant> variants = group_by_seed(runs);
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_EQ(variants[0].name, "drpo (3 seeds)");
  EXPECT_EQ(variants[0].runs, (std::vector<size_t>{0, 2, 3}));
  EXPECT_EQ(variants[1].name, "grpo-1");
}

TEST(Variants, KeepRunsWithoutSettingsSeparate) {
  std::vector<RunData> runs(2);
  runs[0].name = "a";
  runs[1].name = "b";
  EXPECT_EQ(group_by_seed(runs).size(), 2u);
}

TEST(Variants, SeparateRunsWithARepeatedSeed) {
  const std::vector<RunData> runs{seeded("a", "1", "drpo", {1}), seeded("b", "1", "drpo", {1}),
                                  seeded("c", "2", "drpo", {1})};
  const std::vector<SeedVariant> variants = group_by_seed(runs);
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_EQ(variants[0].runs, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(variants[1].runs, (std::vector<size_t>{1}));
}

TEST(Variants, AreDrawnAsMeanSmallestAndLargest) {
  const std::vector<RunData> runs{seeded("a-1", "1", "drpo", {0, 1, 5}), seeded("a-2", "2", "drpo", {1, 2, 6}),
                                  seeded("a-3", "3", "drpo", {5, 0})};
  const std::vector<ChartLine> lines = variant_lines(runs, "rl", "reward/mean");
  ASSERT_EQ(lines.size(), 1u);
  ASSERT_EQ(lines[0].points.size(), 2u);  // the third step is missing in one of them
  EXPECT_EQ(lines[0].points[0].y, 2);
  EXPECT_EQ(lines[0].low[0].y, 0);
  EXPECT_EQ(lines[0].high[0].y, 5);
  EXPECT_EQ(lines[0].points[1].y, 1);
  EXPECT_EQ(lines[0].low[1].y, 0);
  EXPECT_EQ(lines[0].high[1].y, 2);
}

}  // namespace
}  // namespace keel
