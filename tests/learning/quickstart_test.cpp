// A tiny policy must learn: the quickstart's own settings, one seed, and the margin that the documentation promises.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "keel/core/files/file.h"
#include "keel/record/run_data.h"
#include "keel/train/run.h"

namespace keel {
namespace {

TEST(Quickstart, RaisesHeldOutAccuracyByThePromisedMargin) {
  Config config = quickstart_config();
  config.run.dir = (std::filesystem::temp_directory_path() / "keel_learning_test").string();
  config.run.seed = 1;
  config.checkpoint.every = 0;
  ASSERT_GE(config.eval.prompts, 500);
  Console console(stderr);
  ASSERT_EQ(Run::start(config, /*replace=*/true, console)->run(), ExitCode::kDone);
  const RunSummary summary = summarize(read_run(config.run.dir));
  ASSERT_TRUE(summary.before && summary.after);
  const double before = summary.before->mean, after = summary.after->mean;
  EXPECT_GE(after, 0.75);
  EXPECT_GE(after - before, 0.35);
  EXPECT_LT(before, 0.6);  // or there was little left to learn
  remove_tree(config.run.dir);
}

}  // namespace
}  // namespace keel
