#include "keel/train/open_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

TEST(BestMetric, DefaultsToTheMeanMetricOfTheRun) {
  Config config = tiny_run("dppo_tv");
  const LoadedModel policy = starting_with(config, warm_model());
  const PromptSources prompt_sources(config, policy);
  EXPECT_EQ(best_metric_key("auto", prompt_sources), "eval/accuracy");  // a task's answers are right or wrong
  for (const char* metric : {"none", "auto", "eval/accuracy", "eval/low"}) {
    config.checkpoint.best_metric = metric;
    EXPECT_NO_THROW(require_best_metric(config, prompt_sources)) << metric;
  }
  config.checkpoint.best_metric = "eval/reward";
  EXPECT_THAT(error_of(2, [&] { require_best_metric(config, prompt_sources); }),
              AllOf(HasSubstr("checkpoint.best_metric is eval/reward"), HasSubstr("eval/accuracy")));
}

}  // namespace
}  // namespace keel
