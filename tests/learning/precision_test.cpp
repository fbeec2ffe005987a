// What is learned in bf16 is learned: the quickstart's settings, cut short, with a network that computes in bf16.

#include <gtest/gtest.h>

#include <filesystem>

#include "keel/core/files/file.h"
#include "keel/record/run_data.h"
#include "keel/train/run.h"

namespace keel {
namespace {

TEST(TrainingInBf16, RaisesHeldOutAccuracy) {
  Config config = quickstart_config();
  config.run.dir = (std::filesystem::temp_directory_path() / "keel_learning_bf16").string();
  config.run.precision = "bf16";
  config.task.steps = 2;
  config.rollout.weights = "exact";
  config.train.steps = 25;
  config.eval.prompts = 200;
  config.checkpoint.every = 0;
  config.record.certificate_every = 0;
  Console console(stderr);
  ASSERT_EQ(Run::start(config, /*replace=*/true, console)->run(), ExitCode::kDone);
  const RunSummary summary = summarize(read_run(config.run.dir));
  ASSERT_TRUE(summary.before && summary.after);
  EXPECT_LT(summary.before->mean, 0.7);  // or there was little left to learn
  EXPECT_GE(summary.after->mean - summary.before->mean, 0.1);
  remove_tree(config.run.dir);
}

}  // namespace
}  // namespace keel
