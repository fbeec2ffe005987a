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

int64_t kept_bytes(const std::vector<Rollout>& rollouts) {
  int64_t bytes = 0;
  for (const Rollout& rollout : rollouts) bytes += rollout.tokens.kept.bytes();
  return bytes;
}

TEST(Run, SavesTheLastCompleteStepAndStopsIfTheSetsOfTruncatedSamplingExceedTheLimit) {
  Config config = tiny_run("dppo_tv");
  config.rollout.filter.top_p = 0.9;
  config.train.prompts_per_step = 6;  // more than the self-test has
  config.train.steps = 8;
  config.eval.prompts = 0;
  config.checkpoint.every = 0;
  Console console(stderr);
  const auto final_weights = [&] {
    return read_file(std::filesystem::path(config.run.dir) / "checkpoints" / "step-000008" / "model.safetensors");
  };
  ASSERT_EQ(Run::start(config, /*replace=*/true, console)->run(), ExitCode::kDone);
  const std::string unbroken = final_weights();

  TinyTraining same(config);
  int64_t limit = 0, steps = 0;  // the first step after these that takes more than all before
  for (;; ++steps) {
    same.step();
    const int64_t bytes = kept_bytes(same.rollouts());
    ASSERT_GT(bytes, 0);
    if (steps > 0 && bytes > limit) break;
    limit = std::max(limit, bytes);
    ASSERT_LT(steps, config.train.steps);
  }
  config.rollout.kept_bytes_limit = limit;
  EXPECT_THAT(
      error_of(2, [&] { Run::start(config, /*replace=*/true, console)->run(); }),
      AllOf(HasSubstr("the token sets of truncated sampling take "), HasSubstr("; the limit is " + format_bytes(limit)),
            HasSubstr("The run is saved up to step " + std::to_string(steps) + " in ")));
  config.rollout.kept_bytes_limit = 0;  // a machine with more memory
  ASSERT_EQ(Run::resume(config, console)->run(), ExitCode::kDone);
  EXPECT_EQ(final_weights(), unbroken);
  remove_tree(config.run.dir);
}

}  // namespace
}  // namespace keel
