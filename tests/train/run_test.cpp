#include "keel/train/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/files/file.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

TEST(Run, StopsAfterSkippedUpdatesAndLogsTheirPrompts) {
  Config config = tiny_run("dppo_tv");
  config.objective.entropy_coefficient = 0.1;  // a gradient for any rewards
  config.optimizer.lr = 1e38;                  // NaN weights after the first update
  config.eval.prompts = 0;
  config.train.epochs = 5;
  Console console(stderr);
  EXPECT_THAT(error_of(4, [&] { Run::start(config, /*replace=*/true, console)->run(); }),
              AllOf(HasSubstr("4 consecutive updates"), HasSubstr("(step 1)"), HasSubstr("Lower optimizer.lr in")));
  EXPECT_THAT(read_file(std::filesystem::path(config.run.dir) / "log.txt"),
              HasSubstr("step 1: skipped an update with a NaN or infinite gradient norm, on prompts 0 to 3"));
  remove_tree(config.run.dir);
}

}  // namespace
}  // namespace keel
