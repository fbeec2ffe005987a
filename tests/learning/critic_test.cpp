// PPO with a critic learns: the values explain the returns, and accuracy rises.

#include <gtest/gtest.h>

#include <string_view>

#include "tests/learning/train_run.h"
#include "tests/support/effort.h"

namespace keel {
namespace {

struct Case {
  const char* body;
  double explained;  // minimum explained variance at the end; half of it for the small network of make test
};
class PpoWithACritic : public testing::TestWithParam<Case> {};

TEST_P(PpoWithACritic, ExplainsTheReturnsAndRaisesAccuracy) {
  const auto [body, wanted] = GetParam();
  if (!count(std::string_view(body) == "separate", true)) GTEST_SKIP() << "make test-full trains this one as well";
  Config config = quickstart_config();
  config.task.steps = 2;
  config.model.hidden_size = count(32, 64);
  config.model.heads = count(2, 4);
  config.objective.method = "ppo_gae";
  config.critic.body = body;
  if (!config.critic.has_separate_body()) {  // the small shared body needs another setting
    config.critic.lr = 2e-2;
  }
  config.train.steps = count(40, 50);
  config.eval.prompts = count(250, 500);
  const TrainedRun result = train_run(config);
  EXPECT_LT(result.before, 0.7);  // there is room to improve
  EXPECT_GE(result.after - result.before, 0.2);
  const std::vector<ChartPoint> explained = metric_curve(result.run, "rl", "critic/explained_variance");
  ASSERT_GE(explained.size(), 40u);
  EXPECT_NEAR(explained.front().y, 0, 1e-9);  // all values start at 0
  double last = 0;
  for (size_t i = explained.size() - 20; i < explained.size(); ++i) last += explained[i].y / 20;
  EXPECT_GE(last, count(wanted / 2, wanted));
}

INSTANTIATE_TEST_SUITE_P(Bodies, PpoWithACritic, testing::Values(Case{"shared", 0.05}, Case{"separate", 0.25}));

}  // namespace
}  // namespace keel
