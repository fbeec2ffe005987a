// The quickstart learns: its settings, one seed, and the margin in the documentation.

#include <gtest/gtest.h>

#include "tests/learning/train_run.h"

namespace keel {
namespace {

TEST(Quickstart, RaisesHeldOutAccuracyByTheDocumentedMargin) {
  Config config = quickstart_config();
  config.run.seed = 1;
  ASSERT_GE(config.eval.prompts, 500);
  const TrainedRun result = train_run(config);
  EXPECT_GE(result.after, 0.75);
  EXPECT_GE(result.after - result.before, 0.35);
  EXPECT_LT(result.before, 0.6);  // there is room to improve
}

}  // namespace
}  // namespace keel
