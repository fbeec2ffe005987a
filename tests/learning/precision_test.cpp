// Training in bf16 learns: the quickstart's settings with fewer steps.

#include <gtest/gtest.h>

#include "tests/learning/train_run.h"
#include "tests/support/effort.h"

namespace keel {
namespace {

TEST(TrainingInBf16, RaisesHeldOutAccuracy) {
  if (!count(false, true)) GTEST_SKIP() << "make test-full trains in bf16";
  Config config = quickstart_config();
  config.run.precision = "bf16";
  config.task.steps = 2;
  config.model.hidden_size = 64;
  config.model.heads = 4;
  config.sft.batch = 32;
  config.rollout.weights = "exact";
  config.train.steps = 25;
  config.eval.prompts = 200;
  config.record.certificate_every = 0;
  const TrainedRun result = train_run(config);
  EXPECT_LT(result.before, 0.7);  // there is room to improve
  EXPECT_GE(result.after - result.before, 0.1);
}

}  // namespace
}  // namespace keel
