#include "keel/train/run_log.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(RunLog, TimeLeftIncludesStepsAndEvaluations) {
  Config config;
  config.train.steps = 6;
  config.eval.every = 2;
  std::FILE* nowhere = std::fopen("/dev/null", "w");
  {
    Console console(nowhere);
    RunLog log(console, config);
    log.begin_rl(0);
    log.evaluation({}, {}, 0, /*seconds=*/300);
    EXPECT_EQ(log.live_text(""), "RL 0/6");
    // Five steps of 100 s, and evaluations of 300 s after the second, the fourth and the sixth.
    log.step({}, 1, 100);
    EXPECT_EQ(log.live_text(""), "RL 1/6  reward -, 23 min 20 s left");
    log.step({}, 2, 100);
    EXPECT_EQ(log.live_text("evaluation"), "RL 2/6  reward -  evaluation, 21 min 40 s left");
    log.evaluation({}, {}, 2, /*seconds=*/200);
    EXPECT_EQ(log.live_text(""), "RL 2/6  reward -, 13 min 20 s left");
    config.eval.prompts = 0;
    log.step({}, 3, 100);
    EXPECT_EQ(log.live_text(""), "RL 3/6  reward -, 5 min 0 s left");
  }
  std::fclose(nowhere);
}

TEST(RunLog, WarnsOnceWhenTheFirstThreeStepsMakeNoUpdate) {
  StepMetrics empty, updated;
  empty.masked = 1;
  updated.masked = 0;
  // The steps, and the counts of steps after which a warning is logged.
  const std::vector<std::pair<std::vector<StepMetrics>, std::vector<size_t>>> cases = {
      {{empty, empty, empty, empty}, {3}},
      {{empty, empty, updated, empty, empty, empty}, {}},
      {{updated, updated, updated}, {}}};
  for (const auto& [steps, expected] : cases) {
    Config config;
    std::FILE* nowhere = std::fopen("/dev/null", "w");
    std::vector<size_t> warned;
    {
      Console console(nowhere);
      RunLog log(console, config);
      size_t done = 0;
      console.set_log([&](std::string_view line) {
        if (line.find("no update was made") != std::string_view::npos) warned.push_back(done);
      });
      for (const StepMetrics& step : steps) log.step(step, static_cast<int64_t>(++done), 1);
    }
    std::fclose(nowhere);
    EXPECT_EQ(warned, expected) << steps.size() << " steps";
  }
}

}  // namespace
}  // namespace keel
