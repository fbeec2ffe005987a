// A tiny policy must learn: the quickstart's own settings, one seed, and the margin that the documentation promises.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "keel/core/files/file.h"
#include "keel/train/trainer.h"

namespace keel {
namespace {

TEST(Quickstart, RaisesHeldOutAccuracyByThePromisedMargin) {
  Config config = quickstart_config();
  config.run.dir = (std::filesystem::temp_directory_path() / "keel_learning_test").string();
  config.run.seed = 1;
  config.checkpoint.every = 0;
  ASSERT_GE(config.eval.prompts, 500);
  Console console(stderr);
  const auto trainer = Trainer::start(config, /*replace=*/true, console);
  ASSERT_EQ(trainer->run(), ExitCode::kDone);
  ASSERT_TRUE(trainer->first_evaluation() && trainer->last_evaluation());
  const double before = trainer->first_evaluation()->mean, after = trainer->last_evaluation()->mean;
  EXPECT_GE(after, 0.75);
  EXPECT_GE(after - before, 0.35);
  EXPECT_LT(before, 0.6);  // or there was little left to learn
  remove_tree(config.run.dir);
}

}  // namespace
}  // namespace keel
