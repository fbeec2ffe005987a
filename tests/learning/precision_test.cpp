// What is learned in bf16 is learned: the quickstart's settings, cut short, with a network that computes in bf16.

#include <gtest/gtest.h>

#include "tests/learning/trained.h"
#include "tests/support/effort.h"

namespace keel {
namespace {

TEST(TrainingInBf16, RaisesHeldOutAccuracy) {
  Config config = quickstart_config();
  config.run.precision = "bf16";
  config.task.steps = 2;
  config.model.hidden_size = count(32, 64);
  config.model.heads = count(2, 4);
  config.sft.batch = count(16, 32);
  config.rollout.weights = "exact";
  config.train.steps = count(12, 25);
  config.eval.prompts = 200;
  config.record.certificate_every = 0;
  const Trained result = trained(config);
  EXPECT_LT(result.before, 0.7);  // or there was little left to learn
  EXPECT_GE(result.after - result.before, 0.1);
}

}  // namespace
}  // namespace keel
