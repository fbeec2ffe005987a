#include "keel/train/run_log.h"

#include <gtest/gtest.h>

#include "keel/core/files/file.h"
#include "tests/record/occurrences.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

TEST(RunLog, TimeLeftIncludesStepsAndEvaluations) {
  const TestFolder temporary;
  Config config;
  config.train.steps = 6;
  config.eval.every = 2;
  RunFolder folder = RunFolder::create(temporary.path / "run", false, "");
  std::FILE* nowhere = std::fopen("/dev/null", "w");
  {
    Console console(nowhere);
    RunLog log(console, folder, config);
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
    const TestFolder temporary;
    Config config;
    RunFolder folder = RunFolder::create(temporary.path / "run", false, "");
    std::FILE* nowhere = std::fopen("/dev/null", "w");
    std::vector<size_t> warned;
    {
      Console console(nowhere);
      RunLog log(console, folder, config);
      for (size_t i = 0; i < steps.size(); ++i) {
        const auto count_warnings = [&] {
          return occurrences(read_file(temporary.path / "run/log.txt"), "no update was made");
        };
        const auto before = count_warnings();
        log.step(steps[i], static_cast<int64_t>(i) + 1, 1);
        if (count_warnings() > before) warned.push_back(i + 1);
      }
    }
    std::fclose(nowhere);
    EXPECT_EQ(warned, expected) << steps.size() << " steps";
  }
}

}  // namespace
}  // namespace keel
